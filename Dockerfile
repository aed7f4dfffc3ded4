# Runs the demo: docker build -t regraft . && docker run --rm regraft
FROM python:3.11-slim

RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /regraft
# torch's own index has builds for the CPU alone, a tenth of the size
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1
COPY . .
RUN python -m venv .venv \
    && .venv/bin/pip install --quiet --upgrade "pip>=25.1" \
    && .venv/bin/pip install --quiet -c constraints.txt "torch==2.13.0" \
    && .venv/bin/pip install --quiet -c constraints.txt -e ".[mindspore]" \
    && touch .venv/.ready
ENV PATH=/regraft/.venv/bin:$PATH ONEDNN_MAX_CPU_ISA=AVX2 GLOG_v=4
CMD ["bash", "examples/demo.sh"]
