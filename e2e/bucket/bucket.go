// Package bucket keeps the results and runs of nights in an S3-compatible bucket, below a prefix that is laid out like
// a directory for runs.
//
// No result is ever replaced: each state of a unit is an object of its own, named by its digest and written only if
// there is none (If-None-Match). So two machines at work on one unit, or one that was killed half-way, take nothing
// from each other; whoever reads joins all states.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"golang.org/x/sync/errgroup"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// Bucket is a place in a bucket.
type Bucket struct {
	client       *minio.Client
	name, prefix string

	there map[string]bool // States of results that the bucket has, by object name, as far as is known.
	runs  map[string]bool // Runs of those results: they were stored before.
}

// Scheme begins the URL of a place in a bucket.
const Scheme = "s3://"

// place is where a bucket is, as a URL says it.
type place struct {
	name, prefix, region string
	endpoint             *url.URL
}

// Validate returns an error for a URL that is not s3://BUCKET/PREFIX?endpoint=URL&region=NAME; nobody is asked. Without
// an endpoint it is that of $AWS_ENDPOINT_URL, or Amazon's.
func Validate(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return place{}, fmt.Errorf("read the URL: %w", err)
	}
	query := u.Query()
	for key := range query {
		if key != "endpoint" && key != "region" {
			return place{}, fmt.Errorf("%q has the unknown parameter %q: use endpoint or region", text, key)
		}
	}
	if u.Scheme+"://" != Scheme || u.Host == "" || u.User != nil || u.Fragment != "" {
		return place{}, fmt.Errorf("%q is no place in a bucket: use s3://BUCKET/PREFIX?endpoint=URL", text)
	}
	if err := s3utils.CheckValidBucketName(u.Host); err != nil {
		return place{}, fmt.Errorf("%q: %w", u.Host, err)
	}
	at := cmp.Or(query.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	end, err := url.Parse(at)
	if err != nil || end.Host == "" || end.Scheme != "http" && end.Scheme != "https" {
		return place{}, fmt.Errorf("the endpoint %q of %q is no URL with http:// or https://", at, text)
	}
	return place{
		name: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: end,
		region: cmp.Or(query.Get("region"), os.Getenv("AWS_REGION")),
	}, nil
}

// Open opens the bucket at a URL that Validate takes. Credentials are those of the environment, of
// ~/.aws/credentials, or of the machine's role. A bucket that is not there, or cannot be asked for, is an error.
func Open(ctx context.Context, text string) (*Bucket, error) {
	p, err := parse(text)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(p.endpoint.Host, &minio.Options{
		Secure: p.endpoint.Scheme == "https",
		Region: p.region,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		MaxRetries: 1, // Waits of ours have bounds and say what was last seen.
	})
	if err != nil {
		return nil, fmt.Errorf("use the endpoint %q: %w", p.endpoint, err)
	}
	b := &Bucket{
		client: client, name: p.name, prefix: p.prefix,
		there: map[string]bool{}, runs: map[string]bool{},
	}
	const bound = 30 * time.Second
	what := fmt.Sprintf("the bucket %q at %s", b.name, p.endpoint)
	return b, retry(ctx, what, bound, func(ctx context.Context) error {
		ok, err := client.BucketExists(ctx, b.name)
		if err == nil && !ok {
			return await.Stop(errNone)
		}
		return err
	})
}

var errNone = errors.New("there is no such bucket")

// URL names an object as the caller named the bucket.
func (b *Bucket) URL(name string) string { return Scheme + path.Join(b.name, b.prefix, name) }

func (b *Bucket) key(name string) string { return path.Join(b.prefix, name) }

// resultName is the name of a state of a unit, below the prefix.
func resultName(r nightly.Result) (name string, data []byte, err error) {
	data, err = json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", nil, fmt.Errorf("encode the result of %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(data)
	return path.Join(rundir.NightDir, rundir.UnitsDir, fmt.Sprintf("%s-%x.json", r.ID, sum[:8])), data, nil
}

// retry asks again until the store answers. An object that is not there, and a refusal, are answers.
func retry(ctx context.Context, what string, bound time.Duration, ask func(context.Context) error) error {
	return await.Until(ctx, what, time.Second, bound, func(ctx context.Context) (bool, string, error) {
		err := ask(ctx)
		switch code := minio.ToErrorResponse(err).Code; {
		case err == nil:
			return true, "", nil
		case code == "NoSuchKey" || code == "NoSuchBucket" || code == "AccessDenied" || code == "InvalidAccessKeyId" ||
			code == "SignatureDoesNotMatch":
			return false, "", await.Stop(err)
		}
		return false, "", err
	})
}

// object is what a listing says of an object.
type object struct{ name, etag string }

// objects lists what is below a folder of the prefix. Folders that a browser has made as objects are left out.
func (b *Bucket) objects(ctx context.Context, dir string, bound time.Duration) ([]object, error) {
	var all []object
	err := retry(ctx, "a list of "+b.URL(dir), bound, func(ctx context.Context) error {
		all = nil
		options := minio.ListObjectsOptions{Prefix: strings.TrimPrefix(b.key(dir)+"/", "/"), Recursive: true}
		for o := range b.client.ListObjectsIter(ctx, b.name, options) {
			if o.Err != nil {
				return o.Err
			}
			if !strings.HasSuffix(o.Key, "/") {
				all = append(all, object{strings.TrimPrefix(o.Key, b.key("")+"/"), o.ETag})
			}
		}
		return ctx.Err()
	})
	return all, err
}

// Get reads an object.
func (b *Bucket) Get(ctx context.Context, name string, bound time.Duration) (data []byte, err error) {
	err = retry(ctx, b.URL(name), bound, func(ctx context.Context) error {
		o, err := b.client.GetObject(ctx, b.name, b.key(name), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		data, err = io.ReadAll(o)
		return errors.Join(err, o.Close())
	})
	return data, err
}

// Put writes an object, in the place of an older one.
func (b *Bucket) Put(ctx context.Context, name string, data []byte, bound time.Duration) error {
	return b.put(ctx, name, data, minio.PutObjectOptions{}, bound)
}

func (b *Bucket) put(
	ctx context.Context, name string, data []byte, options minio.PutObjectOptions, bound time.Duration,
) error {
	options.ContentType = cmp.Or(mime.TypeByExtension(path.Ext(name)), "application/octet-stream")
	return retry(ctx, "the write of "+b.URL(name), bound, func(ctx context.Context) error {
		_, err := b.client.PutObject(ctx, b.name, b.key(name), bytes.NewReader(data), int64(len(data)), options)
		if minio.ToErrorResponse(err).Code == minio.PreconditionFailed {
			return nil // It is there, and its name says with what content.
		}
		return err
	})
}

// most is how many requests are on their way at once.
const most = 16

// Pull adds the results that the bucket has to those of the night.
func (b *Bucket) Pull(ctx context.Context, night rundir.Night, bound time.Duration) error {
	kept, err := night.Results()
	if err != nil {
		return err
	}
	byID, have := map[string]nightly.Result{}, map[string]bool{}
	for _, r := range kept {
		name, _, err := resultName(r)
		if err != nil {
			return err
		}
		byID[r.ID], have[name] = r, true
	}
	states, err := b.objects(ctx, path.Join(rundir.NightDir, rundir.UnitsDir), bound)
	if err != nil {
		return err
	}
	all, asking := errgroup.WithContext(ctx)
	all.SetLimit(most)
	found := make([]nightly.Result, len(states))
	for i, o := range states {
		if b.there[o.name] = true; have[o.name] {
			continue
		}
		all.Go(func() error {
			data, err := b.Get(asking, o.name, bound)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(data, &found[i]); err != nil {
				return fmt.Errorf("decode a result: %w", err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	changed := map[string]bool{}
	for i, r := range found {
		switch {
		case r.ID != "":
			byID[r.ID], changed[r.ID] = byID[r.ID].Join(r), true
		case have[states[i].name]:
			r = byID[strings.Split(path.Base(states[i].name), "-")[0]]
		}
		for _, a := range r.Attempts {
			b.runs[a.Run] = true
		}
	}
	for id := range changed {
		if err := night.Keep(byID[id]); err != nil {
			return err
		}
	}
	return nil
}

// Push writes the results of a night that the bucket lacks, each after the run directories of its attempts below root.
// A run that is not there was carried out by another machine.
func (b *Bucket) Push(ctx context.Context, night rundir.Night, root string, bound time.Duration) error {
	results, err := night.Results()
	if err != nil {
		return err
	}
	for _, r := range results {
		name, data, err := resultName(r)
		if err != nil {
			return err
		}
		if b.there[name] {
			continue
		}
		for _, a := range r.Attempts {
			if a.Run == "" || b.runs[a.Run] {
				continue
			}
			if err := b.pushRun(ctx, root, a.Run, bound); err != nil {
				return err
			}
			b.runs[a.Run] = true
		}
		var options minio.PutObjectOptions
		options.SetMatchETagExcept("*")
		if err := b.put(ctx, name, data, options, bound); err != nil {
			return err
		}
		b.there[name] = true
	}
	return nil
}

// Runs returns the runs that have a verdict, each with a text that is another one when its history or its verdict is.
func (b *Bucket) Runs(ctx context.Context, bound time.Duration) (map[string]string, error) {
	all, err := b.objects(ctx, "", bound)
	return runsOf(all), err
}

func runsOf(all []object) map[string]string {
	content, judged := map[string]string{}, map[string]bool{}
	for _, o := range all {
		run, file := path.Split(o.name)
		if run = path.Clean(run); strings.Count(o.name, "/") != 2 || !fs.ValidPath(o.name) {
			continue // It would lead out of the directory for runs.
		}
		if file == rundir.VerdictFile || file == rundir.HistoryFile {
			content[run] += file + o.etag // A listing is in order.
		}
		if file == rundir.VerdictFile {
			judged[run] = true
		}
	}
	maps.DeleteFunc(content, func(run, _ string) bool { return !judged[run] })
	return content
}

// Place names the folder of the bucket, however its URL was written.
func (b *Bucket) Place() string { return b.client.EndpointURL().String() + " " + b.URL("") }

// Fetch reads all files of a run into a directory below root. The run must be one of Runs.
func (b *Bucket) Fetch(ctx context.Context, run, root string, bound time.Duration) error {
	files, err := b.objects(ctx, run, bound)
	if err != nil {
		return err
	}
	all, asking := errgroup.WithContext(ctx)
	all.SetLimit(most)
	for _, o := range files {
		file := filepath.FromSlash(o.name)
		if !filepath.IsLocal(file) {
			return fmt.Errorf("%s is no name of a file of a run", b.URL(o.name))
		}
		file = filepath.Join(root, file)
		all.Go(func() error {
			data, err := b.Get(asking, o.name, bound)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			return os.WriteFile(file, data, 0o644)
		})
	}
	return all.Wait()
}

// pushRun writes all files of a run directory, but for hidden ones.
func (b *Bucket) pushRun(ctx context.Context, root, run string, bound time.Duration) error {
	all, asking := errgroup.WithContext(ctx)
	all.SetLimit(most)
	err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(run)),
		func(file string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
				return err
			}
			all.Go(func() error {
				data, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				rel, err := filepath.Rel(root, file)
				if err != nil {
					return err
				}
				return b.Put(asking, filepath.ToSlash(rel), data, bound)
			})
			return nil
		})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, all.Wait())
}
