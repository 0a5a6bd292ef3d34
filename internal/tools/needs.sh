#!/bin/sh
# Prints the Debian packages of what `make integration` needs beside Go and is not there: a JDK and Maven for a real broker and
# Kafka's tools, strace to watch system calls, and what clients in C, Python and JavaScript need.
has() { command -v "$1" >/dev/null 2>&1; }
jdk=openjdk-17-jdk-headless # or whatever this system has
apt-cache show $jdk >/dev/null 2>&1 || jdk=default-jdk-headless
missing=
has java && has javac || missing="$missing $jdk"
has mvn || missing="$missing maven"
for p in strace:strace kcat:kcat node:nodejs npm:npm python3:python3; do
	has "${p%%:*}" || missing="$missing ${p##*:}"
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"
echo $missing
