"""The register map: a SystemRDL file, and what is made of it for software and readers."""
