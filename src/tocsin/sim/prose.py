"""Titles and abstracts that read like science and say nothing: word lists, sentence patterns, and dice.

The lists are the project's own. Each research topic has *objects* (plural nouns), *methods*, *problems* and
*qualities* (singular or mass nouns; methods only stand before past tenses, so that any number fits) and *settings*
(phrases that end a sentence). Names of people come from many languages, as authors do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Dice = Callable[[], float]
"""Gives numbers in [0, 1), one after the other."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The phrases of one research topic."""

    name: str
    is_life_science: bool
    publisher: str
    venues: tuple[str, ...]
    objects: tuple[str, ...]
    methods: tuple[str, ...]
    problems: tuple[str, ...]
    qualities: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Culture:
    """Given and family names that go together."""

    given: tuple[str, ...]
    family: tuple[str, ...]


def pick(choices: tuple[str, ...], dice: Dice) -> str:
    """One of the choices, all equally likely."""
    return choices[int(dice() * len(choices))]


# --- topics ----------------------------------------------------------------------------------------------------------

_TOPICS = """
publish/subscribe | computing | Lantern Press
  | Symposium on Event-Based Systems; Journal of Message Brokers; Streams and Signals
  | standing queries; event brokers; subscriptions; message streams; notification channels; broker overlays; content
    filters
  | covering relations; counting algorithms; filter tries; rendezvous routing; advertisement pruning; batch
    matching; window joins
  | information filtering; event matching; notification delivery; subscription placement; information dissemination;
    alert ranking
  | matching throughput; notification latency; recall of alerts; index size
  | under bursts of events; across wide-area brokers; with millions of subscribers; on commodity servers

peer-to-peer networks | computing | Lantern Press
  | Workshop on Overlay Networks; Transactions on Decentralised Systems; Peer Systems Review
  | distributed hash tables; super-peers; routing tables; churning nodes; gossip protocols; ring overlays; mobile
    peers
  | consistent hashing; iterative routing; recursive multicast; bounded replication; proximity caching; finger
    repair
  | key lookup; load balancing; churn recovery; peer discovery; query routing; replica placement
  | hop count; message overhead; lookup success; storage balance
  | under heavy churn; in partitioned networks; behind slow links; without central servers

databases | computing | Meridian Open
  | Conference on Data Engines; Journal of Query Processing; Relational Letters
  | materialised views; columnar tables; transaction logs; inverted lists; query plans; incremental aggregates;
    temporal tables
  | incremental maintenance; adaptive indexing; vectorised execution; sketch summaries; lazy compaction; cost-based
    rewriting
  | view maintenance; join ordering; query optimisation; storage layout; concurrency control; schema evolution
  | query latency; write throughput; space overhead; tail latency
  | on modern hardware; over skewed keys; with concurrent writers; at cloud scale

information retrieval | computing | Meridian Open
  | Forum on Search and Ranking; Journal of Digital Libraries; Retrieval Notes
  | digital libraries; search logs; ranked lists; scholarly documents; user profiles; citation networks; web
    archives
  | inverted indexing; query expansion; learned ranking; proximity scoring; relevance feedback; passage pooling
  | document ranking; query suggestion; citation recommendation; duplicate detection; federated search; topic
    tracking
  | precision at ten; recall; user effort; ranking stability
  | for casual readers; in multilingual collections; with sparse judgements; over growing archives

machine learning | computing | Cedar House
  | Conference on Learning Machines; Annals of Statistical Learning; Gradient Letters
  | neural networks; sparse features; training sets; graph embeddings; random forests; attention layers; latent
    variables
  | stochastic optimisation; contrastive learning; knowledge distillation; active sampling; variational inference;
    curriculum training
  | representation learning; transfer learning; uncertainty estimation; anomaly detection; continual learning; model
    selection
  | accuracy; calibration error; training time; robustness
  | with few labels; under distribution shift; on small devices; at web scale

natural language processing | computing | Cedar House
  | Meeting on Language Technology; Computational Text Review; Workshop on Low-Resource Languages
  | language models; parallel corpora; dialogue systems; dependency treebanks; news articles; code-switched
    messages; spoken transcripts
  | sequence labelling; back-translation; prompt tuning; constituency parsing; subword segmentation; retrieval
    augmentation
  | machine translation; question answering; named entity recognition; text summarisation; coreference resolution;
    claim verification
  | translation quality; factual consistency; annotation agreement; parsing speed
  | for low-resource languages; in noisy social media; across domains; without parallel data

security and privacy | computing | Lantern Press
  | Symposium on Trust and Secrecy; Journal of Applied Cryptography and Practice; Defence Letters
  | access policies; encrypted messages; signed updates; audit trails; botnets; side channels; anonymous credentials
  | differential privacy; zero-knowledge proofs; threshold signatures; traffic analysis; taint tracking; secure
    aggregation
  | intrusion detection; key management; privacy protection; malware analysis; access control; identity verification
  | detection rate; false alarm rate; proof size; information leakage
  | against adaptive adversaries; on untrusted clouds; in federated settings; on embedded devices

programming languages | computing | Meridian Open
  | Conference on Language Design; Proofs and Programs; Compiler Construction Notes
  | type systems; effect handlers; concurrent programs; garbage collectors; monotonic data types; proof assistants;
    compiler passes
  | abstract interpretation; symbolic execution; gradual typing; refinement types; program synthesis; partial
    evaluation
  | program verification; compiler optimisation; error localisation; memory management; program repair; effect
    inference
  | proof effort; compile time; soundness; code size
  | in large code bases; for distributed programs; with mutable state; without annotations

human-computer interaction | computing | Cedar House
  | Conference on People and Interfaces; Journal of Everyday Computing; Touch and Sight
  | touch screens; shared displays; wearable sensors; voice assistants; reading environments; alert digests;
    sketching tools
  | diary studies; eye tracking; participatory design; controlled experiments; crowd surveys; rapid prototyping
  | interruption management; accessible design; information overload; collaborative writing; gesture recognition;
    attention guidance
  | task completion; perceived workload; error recovery; learning time
  | in daily life; among older adults; at work; in the classroom

robotics | computing | Meridian Open
  | Symposium on Moving Machines; Journal of Field Robotics and Sensing; Actuator Letters
  | mobile robots; legged machines; camera networks; aerial vehicles; grasping hands; underwater gliders; sensor
    arrays
  | model predictive control; visual odometry; imitation learning; sampling-based planning; sensor fusion; swarm
    coordination
  | path planning; object manipulation; simultaneous mapping; obstacle avoidance; task allocation; fault recovery
  | tracking error; energy use; planning time; mission success
  | in crowded streets; under water; on rough terrain; without positioning satellites

genomics | life | Heron Science
  | Genome Reports; Conference on Sequence Analysis; Journal of Open Genetics
  | regulatory elements; single cells; gene families; structural variants; transposable elements; chromatin domains;
    reference genomes
  | long-read sequencing; variant calling; genome-wide association; single-cell profiling; comparative alignment;
    expression mapping
  | gene regulation; genome assembly; variant interpretation; lineage tracing; gene duplication; dosage compensation
  | read depth; mapping accuracy; expression noise; heritability
  | in wild populations; across vertebrates; during development; in rare disease

neuroscience | life | Heron Science
  | Cortex and Behaviour; Journal of Neural Circuits; Synapse Reports
  | cortical neurons; synaptic connections; glial cells; hippocampal circuits; sensory maps; sleep spindles;
    dopamine neurons
  | calcium imaging; optogenetic stimulation; electrophysiological recording; functional imaging; spike sorting;
    behavioural tracking
  | memory consolidation; decision making; sensory adaptation; motor learning; synaptic plasticity; attention
    control
  | firing rate; reaction time; synaptic strength; signal correlation
  | in awake mice; during sleep; across the lifespan; after injury

immunology | life | Heron Science
  | Host Defence; Journal of Immune Networks; Antibody Reports
  | memory cells; antibodies; cytokine signals; dendritic cells; receptor repertoires; vaccine responses; mucosal
    tissues
  | flow cytometry; repertoire sequencing; epitope mapping; adoptive transfer; serological profiling; clonal
    tracking
  | immune memory; antigen recognition; autoimmune disease; vaccine design; inflammation control; tolerance
    induction
  | antibody titre; binding affinity; clonal diversity; inflammatory load
  | in elderly patients; after vaccination; during chronic infection; at barrier tissues

ecology | life | Blue Fern Press
  | Living Landscapes; Journal of Population Ecology; Field Observations
  | pollinators; migratory birds; soil communities; food webs; coral reefs; invasive species; forest canopies
  | remote sensing; mark-recapture surveys; stable isotope analysis; acoustic monitoring; environmental DNA; citizen
    observations
  | species interaction; habitat loss; climate adaptation; population decline; nutrient cycling; range expansion
  | species richness; survival rate; breeding success; biomass
  | in fragmented landscapes; along elevation gradients; under climate warming; on remote islands

plant biology | life | Blue Fern Press
  | Root and Leaf; Journal of Crop Science and Growth; Photosynthesis Letters
  | root systems; guard cells; flowering genes; drought-tolerant crops; seed banks; leaf microbes; grafted trees
  | quantitative trait mapping; gene editing; root imaging; hormone profiling; controlled drought; field phenotyping
  | drought tolerance; flowering time; nutrient uptake; carbon fixation; pathogen resistance; seed dormancy
  | grain yield; water use; leaf area; germination rate
  | under salt stress; in greenhouse trials; across growing seasons; on poor soils

epidemiology | life | Blue Fern Press
  | Public Health Signals; Journal of Outbreak Science; Cohort Studies
  | contact networks; hospital records; birth cohorts; wastewater samples; vaccination programmes; travel histories;
    sentinel clinics
  | compartment models; phylodynamic inference; contact tracing; propensity matching; serological surveys; syndromic
    surveillance
  | outbreak detection; disease transmission; risk prediction; vaccine allocation; antimicrobial resistance;
    mortality estimation
  | reproduction number; attack rate; reporting delay; excess mortality
  | in dense cities; during school terms; across borders; in low-income regions

structural biology | life | Heron Science
  | Molecules in Motion; Journal of Protein Architecture; Fold Reports
  | membrane proteins; ribosomes; ion channels; protein complexes; folding chaperones; viral capsids; disordered
    regions
  | cryo-electron microscopy; molecular dynamics; crystal diffraction; cross-linking analysis; structure prediction;
    magnetic resonance
  | protein folding; ligand binding; membrane transport; allosteric regulation; complex assembly; enzyme catalysis
  | map resolution; binding energy; thermal stability; turnover rate
  | at near-atomic resolution; in living cells; at physiological temperature; under mechanical load

microbiology | life | Blue Fern Press
  | Small Worlds; Journal of Microbial Communities; Phage and Host
  | gut bacteria; biofilms; bacteriophages; soil fungi; marine microbes; resistance genes; quorum signals
  | metagenomic sequencing; continuous culture; transposon mutagenesis; microfluidic imaging; metabolic modelling;
    phage display
  | horizontal gene transfer; biofilm formation; host colonisation; metabolic exchange; phage defence; spore
    formation
  | growth rate; community diversity; mutation rate; colony size
  | in the human gut; in hot springs; under antibiotic pressure; during starvation
"""


def _read_topics(text: str) -> tuple[Topic, ...]:
    """One paragraph per topic: name, realm and publisher, then the venues and each kind of phrase."""
    found = []
    for paragraph in text.split("\n\n"):
        name, realm, publisher, *lists = (part.strip() for part in " ".join(paragraph.split()).split(" | "))
        venues, *phrases = (tuple(each.split("; ")) for each in lists)
        found.append(Topic(name, realm == "life", publisher, venues, *phrases))
    return tuple(found)


TOPICS = _read_topics(_TOPICS)

# --- sentences -------------------------------------------------------------------------------------------------------

ADJECTIVES = tuple(
    "adaptive large-scale noisy long-lived sparse heterogeneous self-organising rare robust lightweight dynamic hidden "
    "fragile hierarchical redundant transient well-mixed ageing fast-changing modular".split()
)
SYSTEMS = tuple(
    "Tidemark Halyard Corvid Larkspur Kestrel Juniper Millrace Ember Fathom Sextant Bellwether Quill Harrier Lodestar "
    "Thicket Osprey Palimpsest Weir Saffron Undertow Marram Cairn Gannet Isobar".split()
)
_TITLES = (
    "{Method} for {problem} in {object}",
    "{Method} and {problem}: a study of {adjective} {object}",
    "Towards {adjective} {problem} with {method}",
    "How {object} shape {problem}",
    "{Object} and {object2} {setting}",
    "Limits of {method} for {problem}",
    "Rethinking {problem} {setting}",
    "On the {quality} of {adjective} {object}",
    "{Problem} {setting}",
    "{System}: {problem} with {method}",
    "{System}: {adjective} {method} for {object}",
    "What do {object} tell us about {problem}?",
    "Beyond {quality}: evaluating {method} {setting}",
    "{Quality} and {quality2} of {object} {setting}",
)
_CONTEXT = (
    "{Object} play a central role in {problem}.",
    "Much of our understanding of {problem} rests on {object}.",
    "{Problem} remains difficult {setting}.",
    "Interest in {problem} has grown quickly as {adjective} {object} have become common.",
    "{Object} are often studied in isolation, although they interact with {object2}.",
    "To improve {quality} {setting}, one has to understand {object}.",
    "The link between {object} and {object2} is central to {problem}, yet poorly understood.",
)
_GAP = (
    "Existing approaches to {problem} ignore {object2}.",
    "However, {quality} is rarely measured {setting}.",
    "Previous work on {method2} assumed {adjective} {object}, which seldom holds {setting}.",
    "Current practice trades {quality} for {quality2}, and the trade is seldom made explicit.",
    "Whether {method2} can cope with {adjective} {object} is an open question.",
)
_CLAIM = (
    "We present an approach to {problem} that is based on {method}.",
    "This paper introduces {System}, a system for {problem} built on {method}.",
    "Here we combine {method} with {method2} to study {problem} in {object}.",
    "We ask whether {method} can improve {quality} without loss of {quality2}.",
    "In this article we revisit {problem} and propose a simple account of {quality} in {object}.",
)
_COMPUTING = (
    "The key idea is to treat {object} as {object2}, so that {problem} becomes a local decision.",
    "Our design separates {problem} from {problem2} and lets {object} evolve independently.",
    "We implemented the approach and ran it on {count} {object} for {days} days.",
    "A prototype with {method} was deployed {setting} and observed for {days} days.",
    "We prove a bound on {quality} and confirm it in a simulation of {count} {object}.",
)
_LIFE = (
    "We analysed {count} samples of {object} that were collected over {days} days.",
    "Using {method}, we followed {object} {setting} and recorded {quality}.",
    "{Method} and {method2} were applied to {count} {object} from {sites} sites.",
    "A mixed model separated the contribution of {object} from that of {object2}.",
    "We compared {object} {setting} with controls over {days} days.",
)
_RESULTS = (
    "Across {count} {object}, {quality} improved by {percent} per cent while {quality2} hardly changed.",
    "{Method} outperformed {method2} by a factor of {sites} in {quality}.",
    "In our data, {quality} depended more on {object} than on {object2}.",
    "We found no effect on {quality2}, a negative result that deserves attention.",
    "The gain in {quality} was largest {setting}, where it reached {percent} per cent.",
)
_CLOSING = (
    "These findings suggest new directions for {problem} and for {problem2}.",
    "We discuss what this means for {object} {setting}.",
    "The approach carries over to {elsewhere}, where similar constraints hold.",
    "All data and code are open, so that {problem} can be compared {setting}.",
    "Together, the results link {problem} to {elsewhere}.",
)


@dataclass(frozen=True, slots=True)
class Text:
    """What a generated paper says."""

    title: str
    abstract: str
    keywords: tuple[str, ...]


def write(topic: Topic, other: Topic, dice: Dice) -> Text:
    """A title, an abstract of five to eight sentences, and keywords that occur in them or name the topic."""
    slots = _phrases(topic, other, dice)
    title = pick(_TITLES, dice).format_map(slots)
    approach = _LIFE if topic.is_life_science else _COMPUTING
    plan = [_CONTEXT, _CLAIM, approach, _RESULTS, _CLOSING]
    if dice() < 0.6:
        plan.insert(1, _GAP)
    if dice() < 0.4:
        plan.insert(-2, approach)
    if dice() < 0.5:
        plan.insert(-1, _RESULTS)
    sentences: list[str] = []
    for choices in plan:
        pattern = pick(choices, dice)
        if pattern not in sentences:
            sentences.append(pattern)
    keywords = [topic.name, slots["problem"], slots["method"]]
    if dice() < 0.7:
        keywords.append(slots["object"])
    if dice() < 0.3:
        keywords.append(slots["elsewhere"])
    return Text(title, " ".join(sentences).format_map(slots), tuple(keywords))


def _phrases(topic: Topic, other: Topic, dice: Dice) -> dict[str, str]:
    """What the paper is about; the same phrases come back in all of its sentences."""
    slots = {
        "adjective": pick(ADJECTIVES, dice),
        "setting": pick(topic.settings, dice),
        "elsewhere": pick(other.problems, dice),
        "System": pick(SYSTEMS, dice),
        "count": f"{int(20 * 10 ** (2.5 * dice())):,}",
        "days": str(7 + int(dice() * 360)),
        "percent": str(2 + int(dice() * 60)),
        "sites": str(2 + int(dice() * 9)),
    }
    kinds = (
        ("object", topic.objects),
        ("method", topic.methods),
        ("problem", topic.problems),
        ("quality", topic.qualities),
    )
    for kind, choices in kinds:
        first = int(dice() * len(choices))
        second = (first + 1 + int(dice() * (len(choices) - 1))) % len(choices)
        slots[kind], slots[kind + "2"] = choices[first], choices[second]
        slots[kind.capitalize()] = choices[first][0].upper() + choices[first][1:]
    return slots


# --- people ----------------------------------------------------------------------------------------------------------

_PEOPLE = """
Alice Daniel Emma George Hannah James Laura Michael Naomi Oliver Rachel Samuel Thomas Victoria
| Baker Bennett Carter Ellison Fletcher Graham Hughes Marlowe O’Connor Palmer Reeves Sinclair Turner Whitfield

Anke Björn Claudia Dieter Friederike Günther Jürgen Käthe Lukas Matthias Sabine Tobias Ulrike Wolfgang
| Bäcker Fischer Groß Hofmann Jäger Köhler Lehmann Müller Neumann Rößler Schäfer Vogel Weiß Zimmermann

Aurélie Benoît Chloé Étienne François Geneviève Hélène Jérôme Loïc Mathilde Noël Pascal Solène Théo
| Beaumont Chevalier Dufrêne Fournier Gaillard Lefèvre Marchand Noiret Périer Roussel Sauvé Thévenin Vasseur
  Béranger

Álvaro Beatriz Carmen Elena Íñigo José Lucía Martín Núria Pablo Raúl Sofía Tomás Ximena
| Álvarez Castaño Domínguez Echeverría García Gutiérrez Ibáñez Llorente Muñoz Núñez Peña Quiroga Rodríguez
  Zúñiga

Ana Bruno Conceição Duarte Fátima Gonçalo Inês João Luís Mariana Otávio Patrícia Rui Tiago
| Almeida Araújo Brandão Cordeiro Figueiredo Guimarães Lourenço Magalhães Nóbrega Pinheiro Queirós Simões
  Tavares Vasconcelos

Agnieszka Bartosz Dorota Ewa Grzegorz Jakub Katarzyna Łukasz Małgorzata Paweł Stanisław Wojciech Zofia Michał
| Bąk Czarnecki Dąbrowski Gołębiewski Jabłoński Kowalczyk Lewandowski Mazur Nowak Pietrzak Sęk Szymański
  Wiśniewski Żak

Barbora Dušan František Hana Jiří Kateřina Lenka Markéta Ondřej Petr Radka Štěpán Tereza Vojtěch
| Beneš Černý Dvořák Fiala Horák Jelínek Král Marek Němec Pokorný Růžička Šimek Veselý Zeman

Ayşe Burak Cem Deniz Elif Gökhan Hülya İpek Kaan Mehmet Nilüfer Özge Selin Yiğit
| Aksoy Bulut Çelik Demir Erdoğan Gündüz Kılıç Öztürk Polat Sönmez Şahin Türkmen Uçar Yıldız

Åse Bjørn Eva Freja Gunnar Håkon Ingrid Jón Kjersti Lars Mikkel Örn Signe Søren
| Andersson Berg Dahl Eriksen Håkansson Jónsdóttir Kristjánsson Lindqvist Mäkinen Nyström Ødegård Rasmussen
  Sørensen Virtanen

Chen Fang Hui Jiayi Lan Mei Na Peng Qiang Rui Wei Xiaoyu Yan Zhihao
| Chen Gao Huang Li Liu Lü Ma Sun Wang Wu Xu Yang Zhang Zhao

Akira Chihiro Emi Haruto Jun Kenji Mai Naoki Ryō Sakura Shōta Takeshi Yōko Yuki
| Andō Fujimoto Hayashi Itō Kōno Matsuda Nakamura Ōno Saitō Satō Suzuki Takahashi Tanaka Yamada

Bo-ram Dong-hyun Eun-ji Hye-jin Jae-won Ji-woo Kyung-soo Min-jun Na-yeon Seo-yeon Soo-min Tae-yang Yoon-ah
  Young-ho
| Ahn Bae Cho Han Hwang Jang Jeong Kang Kim Lee Lim Park Shin Yoon

Aditi Arjun Deepa Farhan Gayatri Harish Ishita Karthik Lakshmi Meera Nikhil Priya Rohan Sunita
| Banerjee Chatterjee Deshpande Gupta Iyer Joshi Kulkarni Mehta Nair Patel Rao Reddy Sharma Subramanian

Aisha Bilal Dina Fatima Hassan Ibrahim Khalid Layla Mariam Nour Omar Rania Salma Yusuf
| Abdallah Al-Hashimi Bakri Darwish El-Sayed Farouk Haddad Khoury Mansour Nasser Qasim Rahmani Saleh Zidan

Adaeze Babajide Chinedu Efua Folake Ìbùkún Kwame Ngozi Olúwaṣeun Sade Temitope Uche Wanjiru Yaw
| Adébáyọ̀ Afolabi Boateng Chukwu Eze Ìdòwú Kamau Mensah Ndlovu Nwosu Okafor Ọlátúnjí Owusu Wambui

Anh Bình Châu Dũng Giang Hằng Khôi Linh Minh Ngọc Phương Quân Thảo Tuấn
| Bùi Đặng Đỗ Dương Hồ Hoàng Lê Lý Ngô Nguyễn Phạm Phan Trần Vũ

Ágnes Balázs Csilla Dániel Erzsébet Gábor Ildikó János Katalin László Márta Péter Réka Zsófia
| Balogh Czakó Farkas Gönczi Horváth Kiss Lakatos Molnár Németh Pásztor Szabó Takács Tóth Vörös

Alexandros Dimitra Eleni Giorgos Ioanna Katerina Kostas Maria Nikos Olga Panagiotis Sofia Stavros Yannis
| Alexiou Dimopoulos Economou Georgiadis Ioannou Karagiannis Laskaris Makris Nikolaidis Papadakis Samaras
  Theodorou Vlachos Zervas
"""

CULTURES = tuple(
    Culture(tuple(given.split()), tuple(family.split()))
    for given, family in (paragraph.split("|") for paragraph in _PEOPLE.split("\n\n"))
)
_INITIALS = "ABCDEFGHIJKLMNOPRSTVWYZ"


def person(culture: Culture, dice: Dice) -> str:
    """A name; every sixth has an initial in the middle."""
    given, family = pick(culture.given, dice), pick(culture.family, dice)
    return f"{given} {_INITIALS[int(dice() * len(_INITIALS))]}. {family}" if dice() < 0.17 else f"{given} {family}"
