"""Grades the lines of a file with Math-Verify. Prints {"seconds", "verdicts"}: the processor time of parsing and verification,
imports and files left out, and for each line whether the response was verified.

Settings are Math-Verify's own defaults for LaTeX and plain expressions with boxes first; a ground truth without LaTeX
delimiters is put between dollar signs, as its README asks. Its time limits are off: they cost a signal each and end nothing
here.
"""

import json
import logging
import sys
import time

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

DELIMITERS = ("$", "\\boxed", "\\(", "\\[")


def main():
    logging.disable(logging.CRITICAL)
    rows = [json.loads(row) for row in open(sys.argv[1]) if row.strip()]
    config = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    verdicts = []
    parse("$1$", config, parsing_timeout=None)  # builds its grammars
    started = time.process_time()
    for row in rows:
        gold, response = str(row["gold"]), row.get("response", row.get("pred"))
        if not any(mark in gold for mark in DELIMITERS):
            gold = f"${gold}$"
        try:
            answers = [parse(text, config, parsing_timeout=None) for text in (gold, response)]
            verdicts.append(bool(verify(*answers, timeout_seconds=None)))
        except Exception:  # an expression that sympy cannot take is an answer that is not verified
            verdicts.append(False)
    print(json.dumps({"seconds": time.process_time() - started, "verdicts": verdicts}))


if __name__ == "__main__":
    main()
