"""CI recipes: what makes a service build and check a project; docs/ci.md shows and explains them."""

from __future__ import annotations

GITHUB = """\
on: [push, pull_request]
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install gpubuild
      - uses: actions/cache/restore@v4
        with:
          path: gpubuild-cache.tar
          key: gpubuild-${{ github.run_id }}
          restore-keys: gpubuild-
      - run: |
          gpubuild cache import gpubuild-cache.tar || true
          gpubuild build --json > build.json
          GPUBUILD_DEVICE=cpu gpubuild run --all
      - if: always()
        run: |
          python3 - build.json >> "$GITHUB_STEP_SUMMARY" <<'END'
          import json, sys
          s = json.load(open(sys.argv[1]))["summary"]
          hits = s["hit-local"] + s["hit-remote"]
          print(f"{s['steps']} steps: {s['ran']} ran, {hits} cached, {s['saved_seconds']:.0f} s saved")
          print((s.get("cache") or {}).get("note", ""))
          END
      - if: github.event_name == 'push'
        run: gpubuild cache export gpubuild-cache.tar
      - if: github.event_name == 'push'
        uses: actions/cache/save@v4
        with:
          path: gpubuild-cache.tar
          key: gpubuild-${{ github.run_id }}
"""

GITLAB = """\
build:
  image: python:3.12
  before_script:
    - pip install gpubuild
  script:
    - gpubuild cache import gpubuild-cache.tar || true
    - gpubuild build --json > build.json
    - GPUBUILD_DEVICE=cpu gpubuild run --all
    - gpubuild cache export gpubuild-cache.tar
  cache:
    key: gpubuild
    paths: [gpubuild-cache.tar]
    policy: $CACHE_POLICY
  artifacts: {paths: [build.json], when: always}
  variables: {CACHE_POLICY: pull}
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
      variables: {CACHE_POLICY: pull-push}
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
"""
