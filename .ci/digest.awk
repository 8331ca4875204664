# Summarizes the output of `go test -v`: a line per package, every test that did not run, and the whole output of failed
# packages. Ends with the counts of top-level tests; fails if a test failed or none ran.
# With -v brief=1 (the log was already shown): only the failed tests and specs of failed packages.

/^--- PASS: / { passed++ }
/^--- FAIL: / { failed++ }
/^--- SKIP: / { skipped++ }

/^=== (RUN|CONT|NAME) / { test = $3 }

{ seen[++n] = $0; of[n] = test }

/^ *--- FAIL: / { lost[$3] = 1 }

/^ +[^ ]+\.go:[0-9]+: NOT RUN: / { sub(/^.*NOT RUN: /, ""); missing[++m] = "NOT RUN: " test ": " $0 }

/^ok[ \t]/ || /^\?[ \t]/ || /^[ \t]+github\.com\/.*coverage:/ {
	if ($0 ~ /^ok/) { print; fflush() }
	n = 0
	test = ""
}

# tell prints the output kept of a package. All specs are one test: of that, only the failed specs are printed.
function tell(    i, failed, specs) {
	for (i = 1; i <= n; i++) {
		if (seen[i] ~ /^Running Suite: /) specs = of[i]
		if (seen[i] ~ /^• \[(FAILED|TIMEDOUT|PANICKED|INTERRUPTED)\]|^Summarizing /) failed = 1
		if (seen[i] ~ /^----------/) failed = 0
		if (!brief || of[i] == "" || (of[i] in lost && (of[i] != specs || failed)) || seen[i] ~ /^panic: /) print seen[i]
	}
	fflush()
}

/^FAIL[ \t]/ {
	tell()
	n = 0
	test = ""
	broken++
}

END {
	for (i = 1; i <= n && !brief; i++) if (seen[i] != "PASS" && seen[i] != "FAIL") print seen[i]
	for (i = 1; i <= m; i++) print missing[i]
	if (broken > failed) failed = broken
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit (failed > 0 || passed == 0)
}
