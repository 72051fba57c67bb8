package hub_test

import (
	"context"
	"testing"
	"time"

	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/vfs"
)

// bench is a client of a server, and a store in memory.
type bench struct {
	t      *testing.T
	server *hubserver.Server
	client *hub.Client
	store  *hub.Store
	notes  []string
	pauses []time.Duration
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, server: hubserver.New(t)}
	b.client = &hub.Client{
		Endpoint: b.server.URL + "/", Token: "hf_secret", Agent: "test",
		Pause:  func(_ context.Context, d time.Duration) error { b.pauses = append(b.pauses, d); return nil },
		Notify: func(text string) { b.notes = append(b.notes, text) },
	}
	b.store = &hub.Store{FS: vfs.NewMem(), Dir: "models", Checkpoint: 1 << 10}
	return b
}

// find finds a reference, which must exist.
func (b *bench) find(text string) *hub.Remote {
	b.t.Helper()
	r, err := b.tryFind(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) tryFind(text string) (*hub.Remote, error) {
	ref, err := hub.ParseReference(text)
	if err != nil {
		return nil, err
	}
	return b.client.Find(context.Background(), ref)
}

// pull pulls a reference.
func (b *bench) pull(text string) (hub.Model, error) {
	r, err := b.tryFind(text)
	if err != nil {
		return hub.Model{}, err
	}
	return b.store.Pull(context.Background(), b.client, r, nil)
}

// stored returns the content of a file of the store.
func (b *bench) stored(name string) []byte {
	b.t.Helper()
	data, err := vfs.ReadFile(b.store.FS, vfs.Join(b.store.Dir, name), 1<<30)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// names lists the files of the store.
func (b *bench) names() (names []string) {
	entries, err := b.store.FS.ReadDir(b.store.Dir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}
