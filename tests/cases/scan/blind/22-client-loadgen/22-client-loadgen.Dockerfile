# expect: nothing
FROM golang:1.23 AS loadgen
RUN git clone --depth 1 -b v12.12.0 https://github.com/tsenart/vegeta /src
WORKDIR /src
COPY third_party/vegeta-stream.patch /tmp/
RUN patch -p1 < /tmp/vegeta-stream.patch && go build -o /out/vegeta .

FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends jq curl && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir datasets pandas tiktoken "lm_eval[api]"
COPY --from=loadgen /out/vegeta /usr/local/bin/vegeta
COPY client/ /client/
ENV PYTHONPATH=/client
ENTRYPOINT ["python", "-m", "bench"]
