# Digests the output of `go test -v`: the line of each package, every test that was not run, and all there is to see
# of a package that failed. It ends with the counts of top-level tests, and fails when a test failed or none was run.

/^--- PASS: / { passed++ }
/^--- FAIL: / { failed++ }
/^--- SKIP: / { skipped++ }

{ seen[++n] = $0 }

/^=== (RUN|CONT|NAME) / { test = $3 }

/^ +[^ ]+\.go:[0-9]+: NOT RUN: / { sub(/^.*NOT RUN: /, ""); missing[++m] = "NOT RUN: " test ": " $0 }

/^ok[ \t]/ || /^\?[ \t]/ || /^[ \t]+github\.com\/.*coverage:/ {
	if ($0 ~ /^ok/) { print; fflush() }
	n = 0
}

/^FAIL[ \t]/ {
	for (i = 1; i <= n; i++) print seen[i]
	fflush()
	n = 0
	broken++
}

END {
	for (i = 1; i <= n; i++) if (seen[i] != "PASS" && seen[i] != "FAIL") print seen[i]
	for (i = 1; i <= m; i++) print missing[i]
	if (broken > failed) failed = broken
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit (failed > 0 || passed == 0)
}
