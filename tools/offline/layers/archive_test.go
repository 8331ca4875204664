package layers

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestLoadArchive(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "layer.tar")
	if err := WriteFile(plain, []File{{Name: "data", Data: make([]byte, 1<<16)}}); err != nil {
		t.Fatal(err)
	}
	l, err := Plain(plain)
	if err != nil {
		t.Fatal(err)
	}
	config := v1.Config{Entrypoint: []string{"/db"}, User: "mysql", Env: []string{"A=1"}}
	img, err := Image(config, false, l)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("seatrial/db:1")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "db.tar")
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadArchive(archive, dir)
	if err != nil {
		t.Fatal(err)
	}
	full, err := FullName("seatrial/db:1")
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded.Name; got != full || got == "seatrial/db:1" {
		t.Errorf("name = %q, want the full one", got)
	}
	file, err := loaded.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config, file.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	small, err := loaded.Image.Layers()
	if err != nil || len(small) != 1 {
		t.Fatalf("layers = %d, %v, want 1", len(small), err)
	}
	media, _ := small[0].MediaType()
	size, _ := small[0].Size()
	was, _ := l.DiffID()
	is, _ := small[0].DiffID()
	if media != types.OCILayerZStd || size > 1<<14 || is != was {
		t.Errorf("layer is %s of %d bytes, diff id %s, want a small zstd layer of %s", media, size, is, was)
	}
}

func TestFullName(t *testing.T) {
	for short, want := range map[string]string{
		"localhost/seatrial/podnet:1":  "localhost/seatrial/podnet:1",
		"registry.invalid/etcd:3.7":    "registry.invalid/etcd:3.7",
		"registry.invalid:5000/a/b:c1": "registry.invalid:5000/a/b:c1",
	} {
		if got, err := FullName(short); err != nil || got != want {
			t.Errorf("FullName(%q) = %q, %v, want %q", short, got, err, want)
		}
	}
	if _, err := FullName("Not A Name"); err == nil {
		t.Error("a bad name gives no error")
	}
}
