# Digests the output of `go test -v`: the line of each package, every test that was not run, and all there is to see
# of a package that failed. It ends with the counts of top-level tests, and fails when a test failed or none was run.
# With -v brief=1, for a log that was shown already: of a package that failed, only the tests and specs that failed.

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

# tell prints what is kept of a package. Specs are all of one test: of them it takes what is told of those that failed.
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
