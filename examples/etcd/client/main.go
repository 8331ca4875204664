// Command client is a data client for etcd: it writes and reads rows by etcd's JSON gateway, as docs/workloads.md says.
// A row is a key below a prefix of the trial's own.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// request is one line of standard input.
type request struct {
	ID      int64  `json:"id"`
	Op      string `json:"op"`
	Client  int    `json:"client"`
	Seq     int64  `json:"seq"`
	Payload []byte `json:"payload"`
}

// answer is one line of standard output.
type answer struct {
	ID     int64   `json:"id"`
	Result string  `json:"result,omitempty"` // "ok", "failed" or "unknown"; none in a line with a row.
	Error  string  `json:"error,omitempty"`
	Server string  `json:"server,omitempty"`
	Member *member `json:"member,omitempty"`
	Row    *row    `json:"row,omitempty"`
	Rows   int64   `json:"rows,omitempty"`
	Sum    string  `json:"sum,omitempty"`
}

// member is what a pod says of itself: read when the pods are one database.
type member struct {
	Writes bool `json:"writes"`
}

type row struct {
	Client  int    `json:"client"`
	Seq     int64  `json:"seq"`
	Payload []byte `json:"payload"`
}

// patience bounds one call: less than the 4 s that Seatrial waits for an answer of a group.
const patience = 3 * time.Second

func main() {
	e := etcd{base: "http://" + os.Getenv("SEATRIAL_ADDRESS"), prefix: "seatrial/" + os.Getenv("SEATRIAL_RUN") + "/"}
	if err := e.serve(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers requests until there are none.
func (e etcd) serve(in *json.Decoder, out *json.Encoder) error {
	for {
		var req request
		if err := in.Decode(&req); err != nil {
			return err
		}
		a := e.answer(req, func(r row) error { return out.Encode(answer{ID: req.ID, Row: &r}) })
		a.ID = req.ID
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// etcd is one member, by its JSON gateway: https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/.
type etcd struct {
	base, prefix string
}

// pair is a key and its value; JSON has both in base64.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (e etcd) answer(req request, each func(row) error) answer {
	var a answer
	var err error
	switch req.Op {
	case "hello":
		a.Server, a.Member, err = e.hello()
	case "write":
		err = e.call("kv/put", pair{[]byte(e.key(req.Client, req.Seq)), req.Payload}, nil)
	case "read-all":
		a.Rows, err = e.readAll(each)
	case "checksum":
		a.Rows, a.Sum, err = e.checksum(req.Client)
	case "clear":
		err = e.call("kv/deleterange", map[string][]byte{"key": []byte(e.prefix), "range_end": end(e.prefix)}, nil)
	default:
		err = refusedError{fmt.Errorf("operation %q is not known", req.Op)}
	}
	var refused refusedError
	switch {
	case err == nil:
		a.Result = "ok"
	case errors.As(err, &refused):
		a.Result, a.Error = "failed", err.Error()
	default: // Whether etcd has carried it out is not known.
		a.Result, a.Error = "unknown", err.Error()
	}
	return a
}

// hello gives the member's own ID, which depends on its name and its cluster's token, and whether it takes writes: each
// member does that knows a leader, to whom it hands them on.
func (e etcd) hello() (string, *member, error) {
	var status struct {
		Header struct {
			Cluster string `json:"cluster_id"`
			Member  string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	err := e.call("maintenance/status", struct{}{}, &status)
	return status.Header.Cluster + "/" + status.Header.Member, &member{Writes: status.Leader != ""}, err
}

// page is how many keys one call reads.
const page = 1000

// readAll gives each row of the trial, in the order of the keys.
func (e etcd) readAll(each func(row) error) (n int64, err error) {
	err = e.walk(e.prefix, func(p pair) error {
		r := row{Payload: p.Value}
		if _, err := fmt.Sscanf(string(p.Key), e.prefix+"%d/%d", &r.Client, &r.Seq); err != nil {
			return fmt.Errorf("key %q is no row: %w", p.Key, err)
		}
		n++
		return each(r)
	})
	return n, err
}

// checksum is the SHA-256 of the keys and values of one client, in the order of the keys, each with its length.
func (e etcd) checksum(client int) (n int64, sum string, err error) {
	h := sha256.New()
	err = e.walk(fmt.Sprintf("%s%d/", e.prefix, client), func(p pair) error {
		n++
		key := p.Key[len(e.prefix):]
		_, err := fmt.Fprintf(h, "%d %s %d %s\n", len(key), key, len(p.Value), p.Value)
		return err
	})
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// walk gives each pair below a prefix, all of one revision.
func (e etcd) walk(prefix string, each func(pair) error) error {
	from, revision := []byte(prefix), "0"
	for {
		var got struct {
			Header struct {
				Revision string `json:"revision"`
			} `json:"header"`
			Pairs []pair `json:"kvs"`
			More  bool   `json:"more"`
		}
		err := e.call("kv/range", map[string]any{
			"key": from, "range_end": end(prefix), "limit": page, "revision": revision,
		}, &got)
		if err != nil {
			return err
		}
		for _, p := range got.Pairs {
			if err := each(p); err != nil {
				return err
			}
		}
		if !got.More || len(got.Pairs) == 0 {
			return nil
		}
		if revision == "0" {
			revision = got.Header.Revision
		}
		from = append(got.Pairs[len(got.Pairs)-1].Key, 0)
	}
}

// key is that of a row; keys are in the order of the sequence numbers.
func (e etcd) key(client int, seq int64) string {
	return fmt.Sprintf("%s%d/%012d", e.prefix, client, seq)
}

// end is the end of the range of a prefix, which ends in a slash.
func end(prefix string) []byte {
	b := []byte(prefix)
	b[len(b)-1]++
	return b
}

// refusedError is an error that says that nothing was written.
type refusedError struct{ error }

// call posts one request. An answer in which etcd refuses it is a refusedError only where that says that nothing was
// done.
func (e etcd) call(method string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // It was only read.
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s: %s: %s", method, res.Status, bytes.TrimSpace(data))
		if res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusNotFound {
			return refusedError{err}
		}
		return err
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
