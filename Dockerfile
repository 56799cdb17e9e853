# syntax=docker/dockerfile:1

# Three images of one project:
#
#   docker build --target train -t seqloom .                            training, on CPU
#   docker build --target train -t seqloom:gpu --build-arg DEVICE=gpu .  training, on GPU
#   docker build --target serve -t seqloom-serve .                      serving, model mounted
#   docker build --target serve-export -t seqloom-translate \
#       --build-arg EXPORT=runs/demo/export .                           serving, model inside
#
#   docker run --rm -v "$PWD/runs:/home/seqloom/runs" seqloom run configs/demo.yaml
#   docker run --rm -p 8500:8500 -p 8501:8501 \
#       -v "$PWD/runs/demo/export:/models:ro" seqloom-serve
#
# A folder that is mounted for writing must be writable by user 10001, or pass
# `--user "$(id -u):$(id -g)"`.

# The newest TensorFlow Serving; there is no 2.21. The export keeps to what 2.20 can run.
ARG SERVING_IMAGE=tensorflow/serving:2.20.0
# Slim is enough for GPUs too: the wheels of tensorflow[and-cuda] bring CUDA and cuDNN, and
# the driver's own libraries are mounted into the container by the NVIDIA runtime.
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm


# The environment is built apart, so that sources and build files stay out of the image.
FROM ${PYTHON_IMAGE} AS environment
# cpu or gpu.
ARG DEVICE=cpu
RUN python -m venv /opt/seqloom
ENV PATH=/opt/seqloom/bin:$PATH
WORKDIR /build
COPY setup.py pyproject.toml ./
COPY models models
COPY pipeline pipeline
COPY serving serving
# The cache keeps the large wheels between builds without storing them in a layer.
# setup.py pins the versions.
# hadolint ignore=DL3013
RUN --mount=type=cache,target=/root/.cache/pip \
    case "${DEVICE}" in \
      cpu) pip install . ;; \
      gpu) pip install ".[gpu]" ;; \
      *) echo "DEVICE: '${DEVICE}' is not one of cpu, gpu" >&2; exit 2 ;; \
    esac


FROM ${SERVING_IMAGE} AS serve
USER 0
# tensorflow_model_server has no handler for SIGTERM, and process 1 without one ignores it:
# every stop would last until the kill. tini is process 1 instead and passes signals on. The
# server still drops the requests in flight; let a preStop hook sleep until none arrive.
# The package's version is the distribution's, which the tag of the image fixes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 seqloom \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin seqloom
# Mount or copy an export folder here; it holds <model name>/<version>/.
ENV MODEL_BASE_PATH=/models \
    MODEL_NAME=translation
EXPOSE 8500 8501
# By number, since Kubernetes' runAsNonRoot cannot look a name up.
USER 10001:10001
# -g: the image's script starts the server as its child, and both must get the signal.
# A failed load is tried again by whoever restarts the container; by default the server itself
# would try for five minutes with its ports closed. Flags after the image's name come last and win.
ENTRYPOINT ["tini", "-g", "--", "/usr/bin/tf_serving_entrypoint.sh", "--max_num_load_retries=0"]


FROM serve AS serve-export
# Folder of exports inside the build context, as `seqloom export` writes it. A default that
# is not there fails, where an empty one would copy the whole context.
ARG EXPORT=runs/demo/export
COPY --chown=10001:10001 ${EXPORT}/ /models/


# The last stage is what a build without --target makes.
FROM ${PYTHON_IMAGE} AS train
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 seqloom \
    && useradd --uid 10001 --gid 10001 --create-home seqloom
COPY --from=environment /opt/seqloom /opt/seqloom
# Which of the driver's libraries the NVIDIA runtime mounts; without effect where there is
# none. Which GPUs is left to whoever runs the container.
ENV PATH=/opt/seqloom/bin:$PATH \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    PYTHONUNBUFFERED=1
WORKDIR /home/seqloom
# Beside each other as in the project, for paths in the experiments are relative.
COPY --chown=10001:10001 configs configs
COPY --chown=10001:10001 data data
# So that a named volume mounted here starts with the right owner.
RUN install --directory --owner=10001 --group=10001 runs
USER 10001:10001
# Beam and local training start processes of their own; tini reaps those that are orphaned.
ENTRYPOINT ["tini", "--", "seqloom"]
CMD ["--help"]
