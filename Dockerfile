# A broker in a container. The commit is told from outside, because .dockerignore leaves the history out:
#   docker build --build-arg COMMIT=$(git rev-parse --short=10 HEAD) --tag semel .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
# A compiler for the kernels that the wheel brings; without it, they would be compiled in the running broker. Debian's packages
# are not pinned: the newest have its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY locks/runtime.txt locks/runtime.txt
RUN python -m venv /opt/semel \
    && /opt/semel/bin/pip install --no-cache-dir --require-hashes --requirement locks/runtime.txt
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY tools/native_kernels.py tools/native_kernels.py
COPY src src
ARG COMMIT=unknown
RUN SEMEL_COMMIT=${COMMIT} /opt/semel/bin/pip install --no-cache-dir --no-deps . \
    && /opt/semel/bin/pip check

FROM python:${PYTHON}-slim
# tini is process 1: it passes signals on from the first moment, also before Python has its handlers.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 semel \
    && useradd --uid 10001 --gid semel --home-dir /var/lib/semel --no-create-home --shell /usr/sbin/nologin semel \
    && install --directory --owner semel --group semel --mode 0750 /var/lib/semel
COPY --from=build /opt/semel /opt/semel
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="semel" \
      org.opencontainers.image.description="An exactly-once event log on Kafka's protocol and file formats" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${COMMIT}"
ENV PATH="/opt/semel/bin:${PATH}" \
    PYTHONUNBUFFERED=1 \
    SEMEL_LISTEN=0.0.0.0:9092 \
    SEMEL_DATA_DIR=/var/lib/semel/data \
    SEMEL_KERNEL_CACHE=/var/lib/semel/kernels \
    SEMEL_METRICS=127.0.0.1:9404 \
    SEMEL_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/semel
VOLUME /var/lib/semel
EXPOSE 9092 9404
STOPSIGNAL SIGTERM
# Healthy also while logs are recovered; readiness is GET /ready.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://' + os.environ['SEMEL_METRICS'] + '/health', timeout=4)"]
ENTRYPOINT ["tini", "--", "semel"]
CMD ["broker"]
