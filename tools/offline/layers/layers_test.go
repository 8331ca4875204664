package layers

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// list returns "type name content-or-link" of the entries of a tar.
func list(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimSpace(string(h.Typeflag)+" "+h.Name+" "+h.Linkname+string(data)))
	}
}

func TestWrite(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("from host"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := []File{
		{Name: "usr/bin/b", Path: host, Mode: 0o755},
		{Name: "etc/a", Data: []byte("data")},
		{Name: "tmp", Dir: true, Mode: 0o1777},
		{Name: "usr/bin/link", Link: "b"},
	}
	var one, two bytes.Buffer
	if err := Write(&one, files); err != nil {
		t.Fatal(err)
	}
	files[0], files[3] = files[3], files[0]
	if err := Write(&two, files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the order of the files changes the layer")
	}
	want := []string{
		"5 etc/", "0 etc/a data", "5 tmp/", "5 usr/", "5 usr/bin/", "0 usr/bin/b from host", "2 usr/bin/link b",
	}
	if diff := cmp.Diff(want, list(t, &one)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := Write(io.Discard, []File{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("a name that is there twice gives no error")
	}
}

// rootTar writes a tar as mmdebstrap does, names beginning with "./".
func rootTar(t *testing.T, headers []tar.Header, content map[string][]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.tar")
	err := create(path, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, h := range headers {
			data := content[h.Name]
			h.Size = int64(len(data))
			if err := tw.WriteHeader(&h); err != nil {
				return err
			}
			if _, err := tw.Write(data); err != nil {
				return err
			}
		}
		return tw.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// elfFile makes a program or library that names a loader and libraries, and does nothing else.
func elfFile(t *testing.T, loader string, libraries ...string) []byte {
	t.Helper()
	const headerSize, progSize, sectionSize = 64, 56, 64
	strs, dynamic := []byte{0}, []byte{}
	for _, l := range libraries {
		dynamic = binary.LittleEndian.AppendUint64(dynamic, 1) // DT_NEEDED.
		dynamic = binary.LittleEndian.AppendUint64(dynamic, uint64(len(strs)))
		strs = append(strs, l+"\x00"...)
	}
	dynamic = append(dynamic, make([]byte, 16)...)
	interp := []byte(loader + "\x00")
	at := uint64(headerSize + progSize)
	strAt := at + uint64(len(interp))
	dynAt := strAt + uint64(len(strs))
	sections := dynAt + uint64(len(dynamic))
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	put([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9))
	put(uint16(3), uint16(62), uint32(1), uint64(0), uint64(headerSize), sections, uint32(0))
	put(uint16(headerSize), uint16(progSize), uint16(1), uint16(sectionSize), uint16(3), uint16(1))
	put(uint32(3), uint32(4), at, uint64(0), uint64(0), uint64(len(interp)), uint64(len(interp)), uint64(1))
	put(interp, strs, dynamic, make([]byte, sectionSize))
	put(uint32(0), uint32(3), uint64(0), uint64(0), strAt, uint64(len(strs)), uint32(0), uint32(0), uint64(1),
		uint64(0))
	put(uint32(0), uint32(6), uint64(0), uint64(0), dynAt, uint64(len(dynamic)), uint32(1), uint32(0), uint64(8),
		uint64(16))
	return b.Bytes()
}

func closureRoot(t *testing.T) string {
	t.Helper()
	dir := tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}
	named := func(h tar.Header, name string) tar.Header { h.Name = name; return h }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
	}
	file := tar.Header{Typeflag: tar.TypeReg, Mode: 0o755}
	content := map[string][]byte{
		"./usr/bin/tool":                        elfFile(t, "/lib64/ld.so", "libone.so.1"),
		"./usr/lib/x86_64-linux-gnu/libone.1.2": elfFile(t, "", "libtwo.so"),
		"./usr/lib/x86_64-linux-gnu/libtwo.so":  []byte("plain"),
		"./usr/lib/ld-real.so":                  []byte("loader"),
		"./usr/lib/plugins/p1.so":               []byte("plugin 1"),
		"./usr/lib/plugins/p2.so":               []byte("plugin 2"),
		"./usr/share/unwanted":                  []byte("x"),
		"./usr/bin/broken":                      elfFile(t, "", "libnone.so"),
	}
	headers := []tar.Header{
		named(dir, "./"), link("./bin", "usr/bin"), link("./lib", "usr/lib"), link("./lib64", "usr/lib64"),
		named(dir, "./usr/"), named(dir, "./usr/bin/"), named(dir, "./usr/lib/"), named(dir, "./usr/lib64/"),
		named(dir, "./usr/lib/plugins/"), named(dir, "./usr/lib/x86_64-linux-gnu/"), named(dir, "./usr/share/"),
		named(dir, "./etc/"), link("./usr/lib64/ld.so", "/lib/ld-real.so"), link("./etc/tool", "../bin/tool"),
		link("./usr/lib/x86_64-linux-gnu/libone.so.1", "libone.1.2"), link("./loop", "loop"),
	}
	for name := range content {
		headers = append(headers, named(file, name))
	}
	return rootTar(t, headers, content)
}

func TestClosure(t *testing.T) {
	root, err := OpenRoot(closureRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files, err := root.Closure("etc/tool", "usr/lib/plugins/*")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, strings.TrimSpace(f.Name+" "+f.Link))
	}
	want := []string{
		"bin usr/bin", "etc/tool ../bin/tool", "lib usr/lib", "lib64 usr/lib64", "usr/bin/tool",
		"usr/lib/ld-real.so", "usr/lib/plugins/p1.so", "usr/lib/plugins/p2.so",
		"usr/lib/x86_64-linux-gnu/libone.1.2", "usr/lib/x86_64-linux-gnu/libone.so.1 libone.1.2",
		"usr/lib/x86_64-linux-gnu/libtwo.so", "usr/lib64/ld.so /lib/ld-real.so",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, word := range map[string]string{
		"usr/bin/none": "no \"usr/bin/none\"", "usr/bin/broken": "libnone.so", "loop": "too many links",
		"usr/nothing/*": "usr/nothing",
	} {
		if _, err := root.Closure(path); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("closure of %q: error %v does not say %q", path, err, word)
		}
	}
}

func TestFilter(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.tar")
	inUsr := func(name string) bool { return strings.HasPrefix(name, "usr/") }
	if err := Filter(out, closureRoot(t), inUsr); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := []string{
		"2 ./bin usr/bin", "2 ./lib usr/lib", "2 ./lib64 usr/lib64", "5 ./usr/", "5 ./etc/",
		"2 ./etc/tool ../bin/tool", "2 ./loop loop",
	}
	if diff := cmp.Diff(want, list(t, f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLayoutSharesLayersAndKeepsContent(t *testing.T) {
	dir := t.TempDir()
	layer := func(name, text string) v1.Layer {
		l, err := Compress(dir, func(w io.Writer) error { return Write(w, []File{{Name: name, Data: []byte(text)}}) })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	shared := layer("base", "shared")
	var all []Named
	for _, name := range []string{"one", "two"} {
		img, err := Image(v1.Config{Entrypoint: []string{"/" + name}}, true, shared, layer(name, name))
		if err != nil {
			t.Fatal(err)
		}
		if media, _ := img.MediaType(); media != types.OCIManifestSchema1 {
			t.Errorf("manifest is %s", media)
		}
		all = append(all, Named{"registry.invalid/" + name + ":v1", img})
	}
	var out bytes.Buffer
	if err := WriteLayout(&out, filepath.Join(dir, "layout"), all); err != nil {
		t.Fatal(err)
	}
	entries := list(t, bytes.NewReader(out.Bytes()))
	blobs, index := 0, ""
	for _, e := range entries {
		if strings.HasPrefix(e, "0 blobs/") {
			blobs++
		}
		if strings.HasPrefix(e, "0 index.json") {
			index = e
		}
	}
	// Two manifests, two configurations, three layers.
	if blobs != 7 {
		t.Errorf("%d blobs, want 7: layers must be shared", blobs)
	}
	for _, want := range []string{`"io.containerd.image.name": "registry.invalid/one:v1"`, `ref.name": "v1"`} {
		if !strings.Contains(index, want) {
			t.Errorf("index lacks %s:\n%s", want, index)
		}
	}
	r, err := shared.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff([]string{"0 base shared"}, list(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
