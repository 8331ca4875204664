package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/certify/reader"
	"github.com/seatrial/seatrial/e2e/certify/seal"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/report/page"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/fixtures"
)

// The files of a certificate.
const (
	certificateFile = "certificate.json" // Signed.
	certificatePage = "certificate.html"
	summaryFile     = "svr.json" // Signed.
)

// passwordVariable names the environment variable with the password of an encrypted key.
const passwordVariable = "SEATRIAL_KEY_PASSWORD" //nolint:gosec // A name, not a password.

type certifyFlags struct {
	run                   runFlags
	to, profile, key, out string
}

func newCertifyRun() *cobra.Command {
	var f certifyFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Audit a cluster, run the trials of a profile on it, and sign what was shown",
		Long: `Run audits the cluster and its nodes, runs the trials of a profile, and compares the cluster with what it
was before. It writes a signed certificate, which seatrial verify checks by judging the runs again. If the audit finds
danger, no trial runs. The exit code is the verdict: 0 PASS, 1 FAIL, 2 UNKNOWN. An interrupted run writes no
certificate. The password of an encrypted key is read from $` + passwordVariable + `.`,
		Example: "  ssh-keygen -t ed25519 -N '' -f seatrial.key\n" +
			"  seatrial certify run --key seatrial.key --to v1.37\n" +
			"  seatrial certify run --key cosign.key --profile standard --context staging --yes-context staging",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.certify(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	seedFlag(cmd, &f.run.seed)
	f.run.register(cmd)
	var profiles, names []string
	for _, p := range scenarios.Profiles() {
		names = append(names, p.Name)
		profiles = append(profiles, fmt.Sprintf("%s (%s)", p.Name, p.Summary))
	}
	f.profile = names[0]
	cmd.Flags().Var(choice{&f.profile, names}, "profile", strings.Join(profiles, ", "))
	completeFlag(cmd, "profile", oneOf(names...))
	cmd.Flags().StringVar(&f.to, "to", "", "minor version to upgrade to, for example "+
		"v1.37 (default: the next one)")
	cmd.Flags().StringVar(&f.key, "key", "", "private key that signs, Ed25519 or ECDSA P-256: of OpenSSH, "+
		"PKCS #8, SEC 1 or cosign")
	cmd.Flags().StringVar(&f.out, "out", "", "directory of the certificate (default: one below --runs)")
	return cmd
}

func signingKey(path string) (*seal.Key, error) {
	if path == "" {
		return nil, badArguments("--key is missing: the certificate is signed; make a key with " +
			"`ssh-keygen -t ed25519 -N '' -f seatrial.key`")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, badArguments("--key: %w", err)
	}
	key, err := seal.ParsePrivateKey(text, []byte(os.Getenv(passwordVariable)))
	if err != nil {
		return nil, badArguments("--key %q: %w; the password of an encrypted key is read from $%s", path, err,
			passwordVariable)
	}
	return key, nil
}

// certify checks its arguments before anything is touched, then audits, carries out the trials and signs.
func (f *certifyFlags) certify(ctx context.Context, stdout, stderr io.Writer) error {
	profiles := scenarios.Profiles()
	profile := profiles[slices.IndexFunc(profiles, func(p scenarios.Profile) bool { return p.Name == f.profile })]
	key, err := signingKey(f.key)
	if err != nil {
		return err
	}
	if err := checkTarget(f.to); err != nil {
		return err
	}
	if err := f.run.check(); err != nil {
		return err
	}
	if f.out != "" {
		if err := folderToWrite("--out", f.out); err != nil {
			return err
		}
	}
	upgrade, err := f.upgrade(ctx)
	if err != nil {
		return err
	}
	if f.run.seed, err = seedOrNew(f.run.seed); err != nil {
		return err
	}
	var plans []plan.Plan
	for _, name := range profile.Scenarios {
		p, err := makePlan(name, f.run.seed)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	say(stderr, "profile %s, seed %d: %s", profile.Name, f.run.seed, strings.Join(profile.Scenarios, ", "))
	if _, err := audit.ParseTarget(upgrade.To()); err != nil {
		say(stderr, "warning: the verdict is UNKNOWN at best, since what the target changes cannot be audited: %v; "+
			"--to names another target", err)
	}
	options, err := f.run.cluster.options(ctx, stderr, plans...)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil { // Hours later it would be too late.
			return fmt.Errorf("--out: %w", err)
		}
	}
	place, err := prepare(ctx, options)
	if err != nil {
		return err
	}
	defer f.run.leave(ctx, place, "certify run", stderr)
	t := certifying{flags: f, place: place, stderr: stderr}
	t.head.Profile = profile.Name
	if err := t.run(ctx, plans); err != nil {
		return err
	}
	return t.write(key, stdout)
}

// upgrade returns the upgrade that is audited. An existing cluster is asked for its version, and nothing else.
func (f *certifyFlags) upgrade(ctx context.Context) (audit.Upgrade, error) {
	access := f.run.cluster.access
	version, err := f.run.cluster.version(plan.Plan{})
	if err != nil {
		return audit.Upgrade{}, err
	}
	if access.given() {
		r, _, _, err := access.read(ctx, "audit", io.Discard)
		if err != nil {
			return audit.Upgrade{}, err
		}
		version = r.Version
	}
	upgrade, err := audit.ParseUpgrade(version, f.to)
	if err != nil {
		return upgrade, badArguments("--to: %w", err)
	}
	return upgrade, nil
}

// certifying is a certificate in the making.
type certifying struct {
	flags  *certifyFlags
	place  *trial.Place
	stderr io.Writer
	head   certificate.Head
	runs   []certificate.Judged
}

func (t *certifying) run(ctx context.Context, plans []plan.Plan) error {
	config, err := t.place.ClientConfig(ctx)
	if err != nil {
		return err
	}
	r, err := reader.Open(ctx, config)
	if err != nil {
		return fmt.Errorf("audit cluster %q: %w", t.place.Cluster.Name(), err)
	}
	upgrade, err := audit.ParseUpgrade(r.Version, t.flags.to)
	if err != nil {
		return badArguments("--to: %w", err)
	}
	read := withNodes(r, t.place.Cluster)
	before, found, err := look(ctx, read, upgrade, secondLook, t.stderr)
	if err != nil {
		return err
	}
	t.head.Audit = found
	if t.head.Cluster, err = fingerprint(before); err != nil {
		return fmt.Errorf("no certificate: %w", err)
	}
	say(t.stderr, "audit: %s", found.Because())
	if err := t.trials(ctx, plans); err != nil {
		return fmt.Errorf("no certificate: %w", err)
	}
	after, err := read(ctx)
	if err != nil {
		return fmt.Errorf("no certificate: read the cluster after the trials: %w", err)
	}
	now, err := fingerprint(after)
	if err != nil {
		return fmt.Errorf("no certificate: %w", err)
	}
	t.head.Drift = audit.Difference(t.head.Cluster, now)
	t.head.Changed = audit.Difference(audit.Inventory(before), audit.Inventory(after))
	return nil
}

// fingerprint returns the fingerprint of a cluster without what Seatrial installs for its trials.
func fingerprint(c audit.Cluster) ([]string, error) {
	return audit.Fingerprint(c.Without(fixtures.RunLabel))
}

// trials carries out the plans one after the other, until one does not leave the cluster clean.
func (t *certifying) trials(ctx context.Context, plans []plan.Plan) error {
	stop := ""
	if t.head.Audit.Verdict == check.Fail {
		stop = "the audit found danger"
	}
	for _, p := range plans {
		why := stop
		if why == "" {
			err := trial.ValidateOn(ctx, trial.AllParts(), p, t.place.Cluster)
			if _, ok := errors.AsType[plan.FieldErrors](err); ok {
				why = "the cluster cannot do it: " + err.Error()
			} else if err != nil {
				return err
			}
		}
		if why != "" {
			t.head.Refused = append(t.head.Refused, certificate.Refused{Scenario: p.Scenario, Seed: p.Seed, Why: why})
			t.head.Stopped = stop
			continue
		}
		out, err := t.flags.run.trial(ctx, t.place, p, "", false, t.stderr)
		if ctx.Err() != nil {
			return fmt.Errorf("%s was interrupted: %w", p.Scenario, context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Scenario, err)
		}
		judged, err := judgedRun(t.flags.run.runs, out.Dir)
		if err != nil {
			return err
		}
		t.runs = append(t.runs, judged)
		say(t.stderr, "%s: %s", p.Scenario, judged.Report.Verdict)
		if !out.Clean {
			stop = "nothing shows that the cluster is clean after " + p.Scenario
		}
	}
	return nil
}

// judgedRun judges a run below root from disk.
func judgedRun(root string, dir *rundir.Dir) (certificate.Judged, error) {
	j, err := trial.Judge(dir, trial.AllParts().Checks)
	if err != nil {
		return certificate.Judged{}, err
	}
	path, err := filepath.Rel(root, dir.Path())
	if err != nil {
		return certificate.Judged{}, err
	}
	files, err := digests(dir)
	if err != nil {
		return certificate.Judged{}, err
	}
	return certificate.Judged{
		Run: certificate.Run{Path: filepath.ToSlash(path), Scenario: j.Run.Scenario, Seed: j.Run.Seed,
			Files: files},
		Report: j.Report, World: j.World,
	}, nil
}

// digests returns the SHA-256 of the files that a run is judged by.
func digests(dir *rundir.Dir) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range []string{rundir.HistoryFile, rundir.PlanFile, rundir.RunFile, rundir.VerdictFile} {
		data, err := dir.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		all[name] = hex.EncodeToString(sum[:])
	}
	return all, nil
}

// write signs and writes the certificate, prints it, and returns its exit code.
func (t *certifying) write(key *seal.Key, stdout io.Writer) error {
	b := readBuild()
	t.head.Commit, t.head.Dirty = b.Commit, b.Dirty
	t.head.Issued = time.Now().UTC().Truncate(time.Second)
	c := certificate.Make(t.head, t.runs, trial.AllParts().Checks)
	dir := t.flags.out
	if dir == "" {
		dir = filepath.Join(t.flags.run.runs, "certificates", t.head.Issued.Format("20060102T150405Z"))
	}
	if err := writeCertificate(dir, t.flags.run.runs, c, key); err != nil {
		return err
	}
	if err := writeCertified(stdout, c, t.flags.run.runs, t.flags.run.output); err != nil {
		return err
	}
	file := filepath.Join(dir, certificateFile)
	say(t.stderr, "certificate: %s\npage: %s\ncheck it: seatrial verify %s %s --key %s", file,
		filepath.Join(dir, certificatePage), file, t.flags.run.runs, publicFile(t.flags.key))
	return verdictExit(c.Verdict)
}

// writeCertified prints a certificate; it names its runs, which are below a directory.
func writeCertified(w io.Writer, c certificate.Certificate, runs, output string) error {
	var names []string
	for _, r := range c.Runs {
		names = append(names, filepath.Join(runs, filepath.FromSlash(r.Path)))
	}
	return writeAs(w, output, c, names, func() error { return report.WriteCertificate(w, c) })
}

// publicFile guesses the file with the public key that belongs to a private one: ssh-keygen and cosign write it beside.
func publicFile(private string) string {
	for _, file := range []string{private + ".pub", strings.TrimSuffix(private, ".key") + ".pub"} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return "PUBLIC_KEY"
}

// writeCertificate writes the files of a certificate into dir.
func writeCertificate(dir, runs string, c certificate.Certificate, key *seal.Key) error {
	signed, err := seal.Sign(c, key)
	if err != nil {
		return err
	}
	summary, err := seal.SignSummary(c, key)
	if err != nil {
		return err
	}
	up, err := relative(dir, runs)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	err = page.WriteCertificate(&html, c, certificateFile, func(run string) string {
		return up + "/" + run + "/" + rundir.PageFile
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the certificate: %w", err)
	}
	return errors.Join(durable.Write(filepath.Join(dir, certificateFile), signed),
		durable.Write(filepath.Join(dir, summaryFile), summary),
		durable.Write(filepath.Join(dir, certificatePage), html.Bytes()))
}

// relative returns the path from one directory to another, with slashes.
func relative(from, to string) (string, error) {
	a, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	b, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	path, err := filepath.Rel(a, b)
	return filepath.ToSlash(path), err
}
