# The program on Debian 12, for one container or for mpirun over several; see
# docs/hosts.md. CPUs only: tools/setup installs a torch for them.
FROM debian:12

WORKDIR /opt/sluice
# Before the sources, so that these layers stay when they change.
COPY tools/setup tools/setup
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates openssh-client openssh-server \
  && tools/setup

COPY . .
RUN cmake --preset release -DSLUICE_BUILD_TESTS=OFF -DSLUICE_BUILD_PYTHON=OFF \
  && cmake --build --preset release --target sluice_program \
  && ln -s /opt/sluice/build/release/bin/sluice /usr/local/bin/sluice

# mpirun refuses root, and sshd does without. Volumes take these folders' owner.
RUN useradd --create-home --shell /bin/bash sluice \
  && install -d -m 700 -o sluice -g sluice /home/sluice/.ssh \
  && install -d -o sluice -g sluice /runs
USER sluice
WORKDIR /runs
CMD ["sluice", "--help"]
