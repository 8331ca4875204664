package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/certify/seal"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

type verifyFlags struct {
	access      accessFlags
	key, output string
}

func newVerify() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify CERTIFICATE RUNS --key FILE",
		Short: "Check a certificate: its signature, and its runs, which are judged again",
		Long: `Verify checks the signature of a certificate, compares the files of its runs, below the directory RUNS,
with their digests, judges the runs again, and derives the certificate again. With --kubeconfig or --context it also
reads the cluster and compares it with the one that was certified: a certificate is void once the cluster has changed.
Only the signer vouches for the audit, for the fingerprint, and that the runs are of that cluster and none is omitted.

Exit codes: 0 genuine, and the verdict is PASS; 1 rejected, or the verdict is FAIL; 2 genuine, and the verdict is
UNKNOWN; 254 bad arguments.`,
		Example: "  seatrial verify certificate.json runs --key seatrial.key.pub\n" +
			"  seatrial verify certificate.json runs --key cosign.pub --context prod",
		Args: exactly("CERTIFICATE", "RUNS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.access.registerContext(cmd)
	outputFlag(cmd, &f.output, "run directories")
	cmd.Flags().StringVar(&f.key, "key", "", "file with the public key of the signer: PEM, or a line of OpenSSH")
	return cmd
}

func (f *verifyFlags) run(ctx context.Context, file, runs string, stdout, stderr io.Writer) error {
	if f.key == "" {
		return badArguments("--key is missing: give the file with the public key of the signer")
	}
	text, err := os.ReadFile(f.key)
	if err != nil {
		return badArguments("--key: %w", err)
	}
	key, err := seal.ParsePublicKey(text)
	if err != nil {
		return badArguments("--key %q: %w", f.key, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return badArguments("%w", err)
	}
	if info, err := os.Stat(runs); err != nil || !info.IsDir() {
		return badArguments("RUNS %q is not the directory of the runs", runs)
	}
	rejected := func(err error) error {
		say(stderr, "REJECTED: %s", visible(err.Error()))
		return &exitError{code: exitViolated}
	}
	c, err := seal.Open(data, key)
	if err != nil {
		return rejected(err)
	}
	made, err := again(c, runs, stderr)
	if err != nil {
		return rejected(err)
	}
	if f.access.given() {
		differ, err := f.differs(ctx, c, stderr)
		if err != nil {
			return err
		}
		if len(differ) > 0 {
			return rejected(errors.New("it is void, because its cluster is another one: " + strings.Join(differ, "; ")))
		}
	}
	if err := writeCertified(stdout, made, runs, f.output); err != nil {
		return err
	}
	id, _ := key.KeyID()
	say(stderr, "genuine: signed by %s; %d runs judged again give the same verdict", id, len(c.Runs))
	return verdictExit(made.Verdict)
}

// again derives the certificate again from its runs, with the checks that it names: this version may have more.
func again(c certificate.Certificate, runs string, stderr io.Writer) (certificate.Certificate, error) {
	var none certificate.Certificate
	names := c.Checks()
	checks := slices.DeleteFunc(trial.AllParts().Checks, func(one check.Check) bool {
		return !slices.Contains(names, one.Name)
	})
	var all []certificate.Judged
	pathOf := map[string]string{} // By the digest of the history.
	for _, r := range c.Runs {
		path := filepath.FromSlash(r.Path)
		if !filepath.IsLocal(path) {
			return none, fmt.Errorf("run %q is not below the directory of the runs", r.Path)
		}
		history := r.Files[rundir.HistoryFile]
		if first, twice := pathOf[history]; twice {
			return none, fmt.Errorf("runs %s and %s are the same trial, counted twice", first, r.Path)
		}
		pathOf[history] = r.Path
		dir, err := rundir.Open(filepath.Join(runs, path))
		if err != nil {
			return none, err
		}
		files, err := digests(dir)
		if err != nil {
			return none, err
		}
		if !maps.Equal(files, r.Files) {
			return none, fmt.Errorf("run %s is not the one that was signed: a file of it has another digest", r.Path)
		}
		judged, err := judgedRun(runs, dir)
		if err != nil {
			return none, err
		}
		if judged.Report, err = only(judged.Report, names, r.Path, stderr); err != nil {
			return none, err
		}
		all = append(all, judged)
	}
	made := certificate.Make(c.Head, all, checks)
	differ := certificate.Differ(c, made)
	if len(differ) == 0 {
		return made, nil
	}
	err := fmt.Errorf("the runs do not show what it says: %s", strings.Join(differ, "; "))
	if b := readBuild(); c.Commit != b.Commit {
		err = fmt.Errorf("%w (it was made by commit %s of Seatrial, and this is commit %s)", err, c.Commit, b.Commit)
	}
	return none, err
}

// only returns the report of a run without the checks that a certificate does not name. A FAIL of one of those is an
// error.
func only(r check.Report, names []string, run string, stderr io.Writer) (check.Report, error) {
	kept := check.Report{}
	var verdicts []check.Verdict
	for _, res := range r.Results {
		if slices.Contains(names, res.Check) {
			kept.Results, verdicts = append(kept.Results, res), append(verdicts, res.Verdict)
			continue
		}
		what := fmt.Sprintf("run %s: check %s, which the certificate leaves out, is %s", run, res.Check, res.Verdict)
		switch res.Verdict {
		case check.Fail:
			return kept, errors.New(what)
		case check.Unknown:
			say(stderr, "warning: %s", what)
		case check.Pass:
		}
	}
	kept.Verdict = check.Worst(verdicts...)
	return kept, nil
}

// differs compares a cluster with the one that was certified.
func (f *verifyFlags) differs(ctx context.Context, c certificate.Certificate, stderr io.Writer) ([]string, error) {
	r, _, _, err := f.access.read(ctx, "read", stderr)
	if err != nil {
		return nil, err
	}
	cluster, err := r.Read(ctx)
	if err != nil {
		return nil, err
	}
	now, err := fingerprint(cluster)
	return audit.Difference(c.Cluster, now), err
}
