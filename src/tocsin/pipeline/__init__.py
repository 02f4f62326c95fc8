"""The data pipeline on Spark: documents stream in, are matched, and matches come out exactly once.

    java           which Java runs Spark
    session        the one way to a Spark session
    schema         what rows look like between stages
    stages         DataFrame -> DataFrame: parse, find_matches, deduplicate; no state, no I/O
    statistics     how many documents hold each word, counted in parallel and kept in versions
    files_source   files in pieces that workers read side by side
    files_job      `tocsin match --spark`

Only this package knows Spark. The same stages run on files, on stored history and on streams.
"""
