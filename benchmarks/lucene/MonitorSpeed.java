import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.CharArraySet;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.analysis.util.CharTokenizer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.MultipassTermFilteredPresearcher;
import org.apache.lucene.monitor.Presearcher;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.monitor.TermWeightor;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.util.Version;

/**
 * How many documents a second does Lucene Monitor match against standing queries, on one thread?
 *
 * <p>Reads conjunctions (one per line) and documents (one per line), registers the conjunctions in
 * bulk, merges the query index into one segment and times match() from UTF-8 bytes to the matches,
 * for each batch size asked for. Everything a user may tune without changing Lucene is an option,
 * so that the caller can look for its best. The matches of the first documents are printed as a
 * count and an order-free hash of their (query, document) pairs: the caller checks them.
 */
public final class MonitorSpeed {
  private static final String FIELD = "text";

  private static final FieldType WORDS_ONLY = new FieldType();

  static {
    WORDS_ONLY.setTokenized(true);
    WORDS_ONLY.setOmitNorms(true);
    WORDS_ONLY.setIndexOptions(IndexOptions.DOCS);
    WORDS_ONLY.freeze();
  }

  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private final Map<String, String> options;
  private final List<byte[]> documents;
  private final Analyzer analyzer;
  private Monitor monitor;
  private long matches;
  private long candidates;

  private MonitorSpeed(Map<String, String> options) throws IOException {
    this.options = options;
    this.documents = readDocuments(Path.of(options.get("documents")));
    this.analyzer = analyzer(options.getOrDefault("analyzer", "letters"));
  }

  public static void main(String[] arguments) {
    Map<String, String> options = new HashMap<>();
    for (String argument : arguments) {
      int equals = argument.indexOf('=');
      options.put(argument.substring(2, equals), argument.substring(equals + 1));
    }
    try {
      System.out.println(new MonitorSpeed(options).run());
      System.exit(0);
    } catch (Throwable failure) {
      // Monitor's own purge thread would keep a failed JVM alive
      failure.printStackTrace();
      System.exit(1);
    }
  }

  private String run() throws IOException {
    IndexSearcher.setDefaultQueryCache(null); // every document is new: nothing to remember
    IndexWriter[] writer = new IndexWriter[1];
    MonitorConfiguration configuration =
        new MonitorConfiguration() {
          @Override
          public IndexWriter buildIndexWriter() throws IOException {
            writer[0] = super.buildIndexWriter();
            return writer[0];
          }
        };
    configuration.setQueryUpdateBufferSize(number("register-batch", 2_000));
    // a purge in the middle of a measurement would be an accident, not a property
    configuration.setPurgeFrequency(1, TimeUnit.DAYS);
    monitor = new Monitor(analyzer, presearcher(), configuration);

    long heapBefore = heapUsed();
    long cpu = SYSTEM.getProcessCpuTime();
    long started = System.nanoTime();
    monitor.register(this::readQueries);
    double registered = seconds(started);
    double registeredCore = coreSeconds(cpu);
    started = System.nanoTime();
    writer[0].forceMerge(1);
    monitor.register(List.of()); // commits and lets readers see the merged index
    monitor.purgeCache();
    double merged = seconds(started);
    int queries = monitor.getDisjunctCount();
    double heapPerQuery = (heapUsed() - heapBefore) / (double) Math.max(1, queries);

    List<String> cells = new ArrayList<>();
    for (String batch : options.getOrDefault("batches", "1").split(",")) {
      cells.add(cell(Integer.parseInt(batch)));
    }
    return String.format(
        Locale.ROOT,
        "{\"lucene\": \"%s\", \"java\": \"%s\", \"presearcher\": \"%s\", \"weights\": \"%s\","
            + " \"analyzer\": \"%s\", \"clause\": \"%s\", \"queries\": %d,"
            + " \"documents\": %d, \"registered_per_second\": %.0f,"
            + " \"registered_per_core_second\": %.0f, \"merge_seconds\": %.2f,"
            + " \"segments\": %d, \"heap_bytes_per_query\": %.0f, \"cells\": [%s]}",
        Version.LATEST,
        System.getProperty("java.vm.version"),
        options.getOrDefault("presearcher", "termfiltered"),
        options.getOrDefault("weights", "df"),
        options.getOrDefault("analyzer", "letters"),
        options.getOrDefault("clause", "must"),
        queries,
        documents.size(),
        queries / registered,
        queries / registeredCore,
        merged,
        segments(writer[0]),
        heapPerQuery,
        String.join(", ", cells));
  }

  /**
   * Warm-up, then rounds of equal length; every round goes on where the last one stopped.
   *
   * <p>Helper threads may use all cores while warming up; the rounds have one core.
   */
  private String cell(int batch) throws IOException {
    double roundCoreSeconds = number("round-core-milliseconds", 1_000) / 1000.0;
    int rounds = number("rounds", 5);

    bind(options.get("all-cores"));
    String sample = sample(batch);
    Warmth warmth = warm(batch);
    int next = warmth.next;
    boolean bound = bind(options.get("core"));
    double[] perSecond = new double[rounds];
    double[] perCoreSecond = new double[rounds];
    long timed = 0;
    matches = 0;
    candidates = 0;
    for (int round = 0; round < rounds; round++) {
      long done = 0;
      long cpu = SYSTEM.getProcessCpuTime();
      long started = System.nanoTime();
      do {
        next = matchFrom(next, batch);
        done += batch;
      } while (coreSeconds(cpu) < roundCoreSeconds);
      perSecond[round] = done / seconds(started);
      perCoreSecond[round] = done / coreSeconds(cpu);
      timed += done;
    }
    return String.format(
        Locale.ROOT,
        "{\"batch\": %d, \"one_core\": %b, \"documents_per_second\": %.1f,"
            + " \"documents_per_core_second\": %.1f,"
            + " \"rounds_per_core_second\": %s, \"documents_timed\": %d, \"documents_warm\": %d,"
            + " \"warm_core_seconds\": %.1f, \"warm\": %b,"
            + " \"matches_per_document\": %.4f, \"candidates_per_batch\": %.1f, %s}",
        batch,
        bound,
        median(perSecond),
        median(perCoreSecond),
        list(perCoreSecond),
        timed,
        warmth.documents,
        warmth.coreSeconds,
        warmth.steady,
        matches / (double) timed,
        candidates / (double) (timed / batch),
        sample);
  }

  private record Warmth(int next, long documents, double coreSeconds, boolean steady) {}

  /**
   * Matches until the rate no longer grows: three pieces of a core-second each, none of which is
   * more than 5 % faster than the fastest before. The compiler is a matter of seconds here, and of
   * a factor of three.
   */
  private Warmth warm(int batch) throws IOException {
    double least = number("warm-core-seconds-min", 6);
    double most = number("warm-core-seconds-max", 45);
    int next = 0;
    long documents = 0;
    double before = 0;
    int steady = 0;
    long warmStarted = SYSTEM.getProcessCpuTime();
    while (steady < 3 || coreSeconds(warmStarted) < least) {
      if (coreSeconds(warmStarted) > most) {
        return new Warmth(next, documents, coreSeconds(warmStarted), false);
      }
      long done = 0;
      long cpu = SYSTEM.getProcessCpuTime();
      do {
        next = matchFrom(next, batch);
        done += batch;
      } while (coreSeconds(cpu) < 1);
      double rate = done / coreSeconds(cpu);
      steady = rate > 1.05 * before ? 0 : steady + 1;
      before = Math.max(before, rate);
      documents += done;
    }
    return new Warmth(next, documents, coreSeconds(warmStarted), true);
  }

  /** Restricts every thread of this JVM to these cores; false where that cannot be done. */
  private static boolean bind(String cores) {
    if (cores == null) {
      return false;
    }
    String self = Long.toString(ProcessHandle.current().pid());
    try {
      Process change =
          new ProcessBuilder("taskset", "-a", "-p", "-c", cores, self)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      return change.waitFor() == 0;
    } catch (IOException missing) {
      return false;
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }

  /** UTF-8 bytes in, matches out; documents are taken in a circle. */
  private int matchFrom(int first, int batch) throws IOException {
    Document[] group = new Document[batch];
    for (int i = 0; i < batch; i++) {
      group[i] = document((first + i) % documents.size());
    }
    MultiMatchingQueries<QueryMatch> found = monitor.match(group, QueryMatch.SIMPLE_MATCHER);
    for (int i = 0; i < batch; i++) {
      for (QueryMatch match : found.getMatches(i)) {
        matches += match.getQueryId().isEmpty() ? 0 : 1;
      }
    }
    candidates += found.getQueriesRun();
    return (first + batch) % documents.size();
  }

  private Document document(int number) {
    Document document = new Document();
    String text = new String(documents.get(number), StandardCharsets.UTF_8);
    document.add(new Field(FIELD, text, WORDS_ONLY));
    return document;
  }

  private String sample(int batch) throws IOException {
    int wanted = Math.min(number("sample", 50), documents.size());
    long count = 0;
    long hash = 0;
    int errors = 0;
    for (int first = 0; first < wanted; first += batch) {
      Document[] group = new Document[Math.min(batch, wanted - first)];
      for (int i = 0; i < group.length; i++) {
        group[i] = document(first + i);
      }
      MultiMatchingQueries<QueryMatch> found = monitor.match(group, QueryMatch.SIMPLE_MATCHER);
      errors += found.getErrors().size();
      for (int i = 0; i < group.length; i++) {
        for (QueryMatch match : found.getMatches(i)) {
          count++;
          hash += mix((Long.parseLong(match.getQueryId()) << 32) + first + i);
        }
      }
    }
    return String.format(
        Locale.ROOT,
        "\"sample_documents\": %d, \"sample_matches\": %d, \"sample_hash\": \"%016x\","
            + " \"sample_errors\": %d",
        wanted,
        count,
        hash,
        errors);
  }

  /** The finaliser of SplitMix64: sums of it do not depend on the order of the pairs. */
  private static long mix(long pair) {
    long z = pair + 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    return z ^ (z >>> 31);
  }

  private Presearcher presearcher() throws IOException {
    TermWeightor weights = TermWeightor.DEFAULT;
    if (options.getOrDefault("weights", "df").equals("df")) {
      Map<String, Integer> frequency = documentFrequencies();
      // only the order matters: rarest first, unseen words before all others
      weights = term -> 1.0 / (0.5 + frequency.getOrDefault(term.text(), 0));
    }
    String name = options.getOrDefault("presearcher", "termfiltered");
    if (name.equals("termfiltered")) {
      return new TermFilteredPresearcher(weights, Collections.emptyList(), Collections.emptySet());
    }
    if (name.startsWith("multipass")) {
      int passes = Integer.parseInt(name.substring("multipass".length()));
      return new MultipassTermFilteredPresearcher(
          passes, 0f, weights, Collections.emptyList(), Collections.emptySet());
    }
    throw new IllegalArgumentException("unknown presearcher: " + name);
  }

  private Map<String, Integer> documentFrequencies() throws IOException {
    Map<String, Integer> frequency = new HashMap<>();
    Set<String> seen = new HashSet<>();
    for (byte[] document : documents) {
      seen.clear();
      String text = new String(document, StandardCharsets.UTF_8);
      try (TokenStream words = analyzer.tokenStream(FIELD, text)) {
        CharTermAttribute word = words.addAttribute(CharTermAttribute.class);
        words.reset();
        while (words.incrementToken()) {
          seen.add(word.toString());
        }
        words.end();
      }
      for (String word : seen) {
        frequency.merge(word, 1, Integer::sum);
      }
    }
    return frequency;
  }

  private static Analyzer analyzer(String name) {
    if (name.equals("standard")) {
      return new StandardAnalyzer(CharArraySet.EMPTY_SET);
    }
    return new Analyzer() {
      @Override
      protected TokenStreamComponents createComponents(String field) {
        Tokenizer words = CharTokenizer.fromTokenCharPredicate(Character::isLetterOrDigit);
        return new TokenStreamComponents(words, new LowerCaseFilter(words));
      }
    };
  }

  private Iterator<MonitorQuery> readQueries() {
    BooleanClause.Occur occur =
        options.getOrDefault("clause", "must").equals("filter")
            ? BooleanClause.Occur.FILTER
            : BooleanClause.Occur.MUST;
    try {
      BufferedReader lines = Files.newBufferedReader(Path.of(options.get("queries")));
      return new Iterator<>() {
        private String line = lines.readLine();
        private int number = 0;

        @Override
        public boolean hasNext() {
          return line != null;
        }

        @Override
        public MonitorQuery next() {
          MonitorQuery query = new MonitorQuery(Integer.toString(number++), conjunction(line, occur));
          try {
            line = lines.readLine();
            if (line == null) {
              lines.close();
            }
          } catch (IOException broken) {
            throw new UncheckedIOException(broken);
          }
          return query;
        }
      };
    } catch (IOException broken) {
      throw new UncheckedIOException(broken);
    }
  }

  private static Query conjunction(String line, BooleanClause.Occur occur) {
    String[] words = line.split(" ");
    if (words.length == 1) {
      return new TermQuery(new Term(FIELD, words[0]));
    }
    BooleanQuery.Builder query = new BooleanQuery.Builder();
    for (String word : words) {
      query.add(new TermQuery(new Term(FIELD, word)), occur);
    }
    return query.build();
  }

  private static List<byte[]> readDocuments(Path path) throws IOException {
    List<byte[]> documents = new ArrayList<>();
    try (BufferedReader lines = Files.newBufferedReader(path)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        documents.add(line.getBytes(StandardCharsets.UTF_8));
      }
    }
    return documents;
  }

  private static int segments(IndexWriter writer) throws IOException {
    try (DirectoryReader reader = DirectoryReader.open(writer)) {
      return reader.leaves().size();
    }
  }

  private int number(String option, int otherwise) {
    String given = options.get(option);
    return given == null ? otherwise : Integer.parseInt(given);
  }

  private static double seconds(long started) {
    return (System.nanoTime() - started) / 1e9;
  }

  /** Processor time of all threads of this JVM, its collector and compiler included. */
  private static double coreSeconds(long cpuStarted) {
    return Math.max(1, SYSTEM.getProcessCpuTime() - cpuStarted) / 1e9;
  }

  private static long heapUsed() {
    System.gc();
    System.gc();
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  private static double median(double[] values) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    int middle = sorted.length / 2;
    return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  private static String list(double[] values) {
    List<String> texts = new ArrayList<>();
    for (double value : values) {
      texts.add(String.format(Locale.ROOT, "%.1f", value));
    }
    return "[" + String.join(", ", texts) + "]";
  }
}
