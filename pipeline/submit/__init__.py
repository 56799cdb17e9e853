"""Jobs: stages of an experiment handed to local processes, Slurm or Kubernetes."""
