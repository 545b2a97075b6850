#!/bin/sh
# {{tool}}. Ends with 0 when the bench says PASS, with 2 when a word is refused, else with 1 or more.
#     {{words}}-- WORD ...    words for the simulator, as its manual has them
# WORK names the folder in which build_{{name}} is made, instead of here; {{programs}} other
# programs than those on PATH. {{options}}
set -eu
refuse() {
  echo "error: $1" >&2
  exit 2
}
seed=
while [ "$#" -gt 0 ]; do
  case $1 in
{{cases}}
  --) shift && break ;;
  *) refuse "$1 is unknown: allowed are {{allowed}}-- and words for the simulator" ;;
  esac
  shift
done
if [ "$seed" ]; then
  case ${seed#+} in
  '' | *[!0-9]* | ???????????*) number=4294967296 ;;
  *) number=${seed#+} ;;
  esac
  [ "$number" -le 4294967295 ] || refuse "--stalls ${seed#+}: allowed are 0 to 4294967295"
  set -- "+stalls=$number" "$@"
fi
here=$(cd "$(dirname "$0")" && pwd)
case ${WORK:-} in
'') WORK=$here ;;
/*) ;;
*) WORK=$PWD/$WORK ;;
esac
cd "$here"
work=$WORK/build_{{name}}
rm -rf "$work"
mkdir -p "$work"
{{build}}
{ {{run}} "$@" || echo "exit code $?" > "$work/code"; } 2>&1 | tee "$work/run.log"
# A simulator's own exit code says little: some end with 0 after $fatal.
if [ -s "$work/code" ] || ! grep -q '^\(# \)\{0,1\}PASS: ' "$work/run.log"; then
  echo "FAILED: see $work/run.log" >&2
  exit 1
fi
