package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// packPull pulls a model as a pack to a disk in memory.
type packPull struct {
	t      *testing.T
	server *hubserver.Server
	client *hub.Client
	remote *hub.Remote
	want   []byte // the pack that an import of the downloaded files writes
	source int64  // bytes of the files
	known  int    // times that the hash of the pack was handed over

	mu    sync.Mutex
	disk  *vfs.Mem
	peak  int64                 // most bytes on the disk
	fault func(op vfs.Op) error // nil: none
}

// pieceBytes is the size of the pieces of the tests' downloads.
const pieceBytes = 256 << 10

// newPackPull puts the files of a directory on a server, and imports them.
func newPackPull(t *testing.T, dir, model string) *packPull {
	p := &packPull{t: t, server: hubserver.New(t), disk: vfs.NewMem()}
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		p.source += int64(len(files[e.Name()]))
	}
	p.server.AddRepo("o/model", files)
	p.client = &hub.Client{Endpoint: p.server.URL, Pause: func(context.Context, time.Duration) error { return nil }}
	ref, err := hub.ParseReference("hf:o/model")
	require.NoError(t, err)
	p.remote, err = p.client.Find(t.Context(), ref)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "want.pack")
	_, err = llmrun.Import(t.Context(), filepath.Join(dir, model), to, llmrun.ImportOptions{})
	require.NoError(t, err)
	p.want, err = os.ReadFile(to)
	require.NoError(t, err)
	return p
}

// op notes what is on the disk before each operation.
func (p *packPull) op(op vfs.Op) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := int64(0)
	for _, dir := range []string{"models", "models/model"} {
		entries, _ := p.disk.ReadDir(dir) // which may not exist
		for _, e := range entries {
			total += e.Size
		}
	}
	if p.peak = max(p.peak, total); p.fault == nil {
		return nil
	}
	return p.fault(op)
}

// hashed notes that the hash of the pack is known, which must be its own.
func (p *packPull) hashed(path string, sum [32]byte, size int64) {
	if strings.HasSuffix(path, llmrun.PackSuffix) {
		require.Equal(p.t, sha256.Sum256(p.want), sum)
		require.EqualValues(p.t, len(p.want), size)
		p.known++
	}
}

// pull pulls the model.
func (p *packPull) pull(ctx context.Context) (hub.Model, error) {
	store := &hub.Store{FS: vfs.NewFaulty(p.disk, p.op), Dir: "models", Checkpoint: pieceBytes, Hashed: p.hashed}
	plan := func(files fs.FS) (hub.Packer, error) {
		steps, err := llmrun.PlanSteppedImport(files, p.remote.Path, nil)
		return packer{steps}, err
	}
	return store.PullPack(ctx, p.client, p.remote, plan, func(string) error { return nil }, nil)
}

// requirePack expects the pack alone on the disk, as an import writes it.
func (p *packPull) requirePack(m hub.Model) {
	p.t.Helper()
	got, err := vfs.ReadFile(p.disk, m.Path, 1<<30)
	require.NoError(p.t, err)
	require.True(p.t, bytes.Equal(p.want, got), "the pack is not that of an import")
	entries, err := p.disk.ReadDir("models")
	require.NoError(p.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	require.Equal(p.t, []string{p.remote.Name + ".model.json", p.remote.Name + ".pack"}, names)
}

// layered writes a GGUF model with several layers.
func layered(t *testing.T, layers, ffn int, tied bool) (dir string) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.FFN, shape.Vocab, shape.Tied = layers, ffn, 2048, tied
	dir = t.TempDir()
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), filepath.Join(dir, "m.gguf"), synth.Options{Shape: shape, Quant: "q8_0"}))
	return dir
}

// shards splits the weights of the bundled model's directory into files of an index.
func shards(t *testing.T) (dir string) {
	from := hubmodel.Dir(testutil.Root(t))
	dir = filepath.Join(t.TempDir(), "model")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	src, err := safetensors.Open(vfs.OS(), filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	names := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"}
	tensors, where := map[string][]safetensors.TensorData{}, map[string]string{}
	for i, tensor := range src.Tensors() {
		data := make([]byte, tensor.Size)
		_, err := src.ReadAt(tensor, data, 0)
		require.NoError(t, err)
		name := names[i%len(names)] // each layer is in all of them
		where[tensor.Name] = name
		tensors[name] = append(tensors[name], safetensors.TensorData{Name: tensor.Name, Type: tensor.Type, Shape: tensor.Shape, Data: data})
	}
	require.NoError(t, src.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	for name, list := range tensors {
		require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, name), list))
	}
	index, err := json.Marshal(map[string]any{"weight_map": where})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), index, 0o600))
	return dir
}

// TestPullPackHoldsTheModelOnce counts the bytes on the disk before each of its operations. They are never more than the
// model and a few pieces, and the pack is that of an import.
func TestPullPackHoldsTheModelOnce(t *testing.T) {
	for name, c := range map[string]struct {
		dir, model string
		twice      int64 // bytes of small files, which are kept until the end
	}{
		"gguf":   {dir: layered(t, 12, 1024, false), model: "m.gguf"},
		"shards": {dir: shards(t), twice: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPackPull(t, c.dir, c.model)
			m, err := p.pull(t.Context())
			require.NoError(t, err)
			p.requirePack(m)
			t.Logf("model %d, pack %d, at most %d on the disk", p.source, len(p.want), p.peak)
			require.Equal(t, 1, p.known)
			require.LessOrEqual(t, p.peak, max(p.source, int64(len(p.want)))+8*pieceBytes+c.twice)
			before := len(p.server.Requests)
			again, err := p.pull(t.Context())
			require.NoError(t, err)
			require.Equal(t, m, again)
			require.Len(t, p.server.Requests, before)
		})
	}
}

// errCut is the failure of a disk after a power cut.
var errCut = errors.New("power cut")

// TestPullPackSurvivesPowerCuts cuts the power at random operations of the disk, with none, some or all of what was not
// synced, several times in a download: it ends with the pack of an import, and does not download again what was durable.
func TestPullPackSurvivesPowerCuts(t *testing.T) {
	r := testutil.Random(t)
	p := newPackPull(t, layered(t, 6, 512, r.IntN(2) == 0), "m.gguf")
	operations := int64(0)
	p.fault = func(op vfs.Op) error { operations = op.Index; return nil }
	_, err := p.pull(t.Context())
	require.NoError(t, err)
	for range testutil.Effort(12, 300) {
		p.disk = vfs.NewMem()
		for range 1 + r.IntN(3) {
			cutAt := r.Int64N(operations)
			p.fault = func(op vfs.Op) error {
				if op.Index >= cutAt {
					return errCut
				}
				return nil
			}
			if _, err := p.pull(t.Context()); err != nil {
				require.ErrorIs(t, err, errCut)
			}
			p.disk = p.disk.CrashClone([]float64{0, 0.5, 1}[r.IntN(3)], r.Uint64())
		}
		durable := durableBytes(t, p.disk)
		p.fault, p.server.Requests = nil, nil
		m, err := p.pull(t.Context())
		require.NoError(t, err)
		p.requirePack(m)
		if durable > 0 {
			require.Zero(t, whole(p.server), "%d bytes were durable", durable)
		}
	}
	require.Greater(t, p.known, testutil.Effort(12, 300)/2, "the hash of a pack that was continued is known, too")
}

// durableBytes returns how many bytes of the model the state on a disk says are durable.
func durableBytes(t *testing.T, disk *vfs.Mem) (n int64) {
	_, unfinished, err := (&hub.Store{FS: disk, Dir: "models"}).Models()
	require.NoError(t, err)
	for _, u := range unfinished {
		n += u.Done
	}
	return n
}

// whole returns how many requests asked for the model's file from its beginning on.
func whole(s *hubserver.Server) (n int) {
	for _, r := range s.Requests {
		if strings.HasSuffix(r.URL.Path, ".gguf") && r.Header.Get("Range") == "" {
			n++
		}
	}
	return n
}

// TestPullPackKeepsNothingOfAnotherFile changes the file after its header was read, damages what an interrupted download
// left, and sends another file than was published: the download says so, and begins again.
func TestPullPackKeepsNothingOfAnotherFile(t *testing.T) {
	p := newPackPull(t, layered(t, 4, 512, false), "m.gguf")
	path := "/o/model/resolve/" + hubserver.Commit + "/m.gguf"
	data := p.server.Files[path]
	changed := bytes.Clone(data)
	for _, at := range []int{100, len(data) - 100} { // in the header, and in the weights
		changed[at] ^= 1
		p.server.Before = func(r *http.Request) {
			if r.URL.Path == path && r.Header.Get("Range") == "" {
				p.server.Mu.Lock()
				p.server.Files[path] = changed
				p.server.Mu.Unlock()
			}
		}
		_, err := p.pull(t.Context())
		require.ErrorIs(t, err, hub.ErrDiscarded)
		require.Equal(t, at == 100, strings.Contains(err.Error(), "m.gguf: the file has changed on the server"), "%v", err)
		require.Equal(t, at != 100, errors.Is(err, hub.ErrDigest))
		entries, err := p.disk.ReadDir("models")
		require.NoError(t, err)
		require.Empty(t, entries)
		p.server.Before = nil
		p.server.Files[path] = data
		changed = bytes.Clone(data)
	}

	// An interrupted download, of which a byte of the pack changes on the disk.
	p.interrupt()
	f, err := vfs.Reopen(p.disk, "models/m.pack.partial")
	require.NoError(t, err)
	one := make([]byte, 1)
	_, err = f.ReadAt(one, pieceBytes/2)
	require.NoError(t, err)
	one[0] ^= 4
	_, err = f.WriteAt(one, pieceBytes/2)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = p.pull(t.Context())
	require.ErrorIs(t, err, hub.ErrPackStart)
	require.ErrorIs(t, err, hub.ErrDiscarded)
	m, err := p.pull(t.Context())
	require.NoError(t, err)
	p.requirePack(m)

	// One that the server replaces meanwhile: its header and the plan stay the same.
	_, err = (&hub.Store{FS: p.disk, Dir: "models"}).Remove("m")
	require.NoError(t, err)
	p.interrupt()
	other := newPackPull(t, changedWeights(t, data), "m.gguf")
	require.False(t, bytes.Equal(p.want, other.want))
	other.disk = p.disk
	m, err = other.pull(t.Context())
	require.NoError(t, err)
	other.requirePack(m)
}

// interrupt stops a pull when more than a piece of the pack is written.
func (p *packPull) interrupt() {
	p.t.Helper()
	ctx, cancel := context.WithCancelCause(p.t.Context())
	stopped := errors.New("stopped")
	p.fault = func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Path, ".pack.partial") && op.Offset > pieceBytes*3/2 {
			cancel(stopped)
		}
		return nil
	}
	_, err := p.pull(ctx)
	require.ErrorIs(p.t, err, stopped)
	p.fault = nil
}

// changedWeights writes a GGUF file with one bit of its first tensor flipped.
func changedWeights(t *testing.T, data []byte) (dir string) {
	dir = t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	g, err := gguf.Open(vfs.OS(), path)
	require.NoError(t, err)
	at := g.Tensors()[0].Offset + 5
	require.NoError(t, g.Close())
	changed := bytes.Clone(data)
	changed[at] ^= 1
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	return dir
}

// TestPullPackOfAnotherDownload continues a download that began without --pack: it is finished first. One that began with
// it is not continued without.
func TestPullPackOfAnotherDownload(t *testing.T) {
	dir := layered(t, 2, 256, false)
	p := newPackPull(t, dir, "m.gguf")
	store := &hub.Store{FS: vfs.OSOwn(), Dir: t.TempDir()}
	s, screen := asking(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := store.Pull(ctx, p.client, p.remote, func(done, _ int64) {
		if done > 0 {
			cancel(cli.ErrInterrupted)
		}
	})
	require.ErrorIs(t, err, cli.ErrInterrupted)
	flags := &pullFlags{pack: true}
	m, err := flags.download(t.Context(), s, p.client, store, p.remote)
	require.NoError(t, err)
	require.Contains(t, screen.String(), "its download began without: the model is downloaded first, and the disk holds both until it is imported\n")
	m, err = packPulled(t.Context(), &cli.Streams{Err: screen}, store, m)
	require.NoError(t, err)
	got, err := os.ReadFile(m.Path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(p.want, got))

	p.fault = func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Offset > 0 {
			return errCut
		}
		return nil
	}
	_, err = p.pull(t.Context())
	require.ErrorIs(t, err, errCut)
	other := &hub.Store{FS: p.disk, Dir: "models"}
	_, err = other.Pull(t.Context(), p.client, p.remote, nil)
	require.ErrorContains(t, err, "m is on its way as a pack: give --pack, too, or delete what is here of it with llmrun models rm m")
	require.NoError(t, vfs.WriteFile(p.disk, "models/m.gguf", []byte("the user's")))
	freed, err := other.Remove("m")
	require.NoError(t, err)
	require.Positive(t, freed)
	left, err := p.disk.ReadDir("models")
	require.NoError(t, err)
	require.Equal(t, []vfs.Info{{Name: "m.gguf", Size: 10}}, left)
	p.fault = nil
	_, err = p.pull(t.Context())
	require.NoError(t, err)
	mine, err := vfs.ReadFile(p.disk, "models/m.gguf", 100)
	require.NoError(t, err)
	require.Equal(t, "the user's", string(mine))

	p.disk = vfs.NewMem() // the disk fails between the complete pack and its record
	p.fault = func(op vfs.Op) error {
		if op.Kind == vfs.OpRename && op.Path == "models/m.model.json" {
			return errCut
		}
		return nil
	}
	_, err = p.pull(t.Context())
	require.ErrorIs(t, err, errCut)
	_, err = p.disk.Stat("models/m.pack")
	require.NoError(t, err)
	_, err = (&hub.Store{FS: p.disk, Dir: "models"}).Remove("m")
	require.NoError(t, err)
	left, err = p.disk.ReadDir("models")
	require.NoError(t, err)
	require.Empty(t, left)
}
