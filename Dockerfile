# The program and nothing else, run by a user who is not root. docs/start/first-model.md says how to use it.
#
#     docker build --tag isentrope .
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package isentrope && strip target/release/isentrope

FROM debian:bookworm-slim
RUN useradd --uid 1000 --create-home isentrope && install -d -o isentrope -g isentrope /work /models
COPY --from=build /src/target/release/isentrope /usr/local/bin/
# Where models are downloaded to.
ENV HF_HOME=/models
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/isentrope/
USER isentrope
# Recipes, data and runs: mount a directory of yours here.
WORKDIR /work
VOLUME ["/work", "/models"]
ENTRYPOINT ["isentrope"]
CMD ["--help"]
