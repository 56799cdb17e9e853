"""The stage `prepare`: from corpus files to records and vocabularies, by Apache Beam."""
