package llmrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// damageCase is a model in a cache, and how it is run.
type damageCase struct {
	model string
	opts  llmrun.Options
	more  int64 // memory above the smallest budget; 0 sets no budget
}

// newDamageCase prepares a model.
func newDamageCase(t *testing.T, model string, more int64, change func(*llmrun.Options)) *damageCase {
	t.Helper()
	o := llmrun.Options{Threads: 2, Context: 64, Cache: llmrun.CacheOptions{Dir: filepath.Join(t.TempDir(), "cache"), NoKV: true}}
	if change != nil {
		change(&o)
	}
	return &damageCase{model, o, more}
}

// run opens the model and generates. It calls at after each token. damage is what the engine
// reported about damage.
func (c *damageCase) run(t *testing.T, at func(n int)) (ids []int32, damage []string, err error) {
	t.Helper()
	o := c.opts
	o.Notify = func(text string) {
		if strings.Contains(text, "damaged") {
			damage = append(damage, text)
		}
	}
	if c.more > 0 {
		o.Memory.RAM = minimum(t, c.model, o) + c.more
	}
	engine, err := llmrun.Open(c.model, o)
	if err != nil {
		return nil, damage, err
	}
	defer func() { require.NoError(t, engine.Close()) }()
	seed := uint64(7)
	for piece, failed := range newSession(t, engine).GenerateIDs(t.Context(), []int32{1, 2, 3, 50, 60}, llmrun.GenerateOptions{
		MaxTokens: 12, IgnoreEOS: true, Sampling: llmrun.Sampling{Temperature: 3, Seed: &seed},
	}) {
		if failed != nil {
			return ids, damage, failed
		}
		ids = append(ids, piece.ID)
		at(len(ids))
	}
	return ids, damage, nil
}

// pack returns the path of the only pack in the cache.
func (c *damageCase) pack(t *testing.T) string {
	t.Helper()
	packs, err := llmrun.CachedPacks(c.opts.Cache.Dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	return filepath.Join(c.opts.Cache.Dir, packs[0].Name)
}

// damageTensors inverts some bytes of each tensor of a file whose name contains part, one in each
// 4 KiB.
func damageTensors(t *testing.T, path, part string) {
	t.Helper()
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	tensors := slices.Clone(f.Source.Tensors())
	require.NoError(t, f.Close())
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	damaged := 0
	for _, x := range tensors {
		for off := int64(5); strings.Contains(x.Name, part) && off < x.Size; off += 4096 {
			flipByte(t, file, x.Offset+off)
			damaged++
		}
	}
	require.Positive(t, damaged)
	require.NoError(t, file.Close())
}

// flipByte inverts a byte of a file.
func flipByte(t *testing.T, file *os.File, at int64) {
	t.Helper()
	var one [1]byte
	_, err := file.ReadAt(one[:], at)
	require.NoError(t, err)
	one[0] ^= 0xff
	_, err = file.WriteAt(one[:], at)
	require.NoError(t, err)
}

// untiedModel writes a model whose embedding stays on flash.
func untiedModel(t *testing.T, mix string) string {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Tied = 4, 512, 1024, 4096, false
	return writeShape(t, shape, mix)
}

// largeExperts writes a model of experts that a small budget does not hold.
func largeExperts(t *testing.T) string {
	shape, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN = 3, 512, 512
	return writeShape(t, shape, "q4_k_m")
}

// TestDamagedPackIsRepairedDuringRun damages each kind of section of a cached pack before a run,
// or while it generates. The run gives the answer of the sound pack, reports the damage once and
// removes the pack.
func TestDamagedPackIsRepairedDuringRun(t *testing.T) {
	t.Parallel()
	mapped := func(o *llmrun.Options) { o.Memory.Pin = "file" }
	mmap := func(o *llmrun.Options) { o.Memory.Flash = "mmap" }
	hub := hubmodel.Dir(testutil.Root(t))
	coarse, fine, experts, small := untiedModel(t, "q4_k_m"), untiedModel(t, "q8_0"), largeExperts(t), quantizedModel(t)
	for i, test := range []struct {
		name, model, tensors string
		more                 int64
		change               func(*llmrun.Options)
		unread               bool // weights in memory are not read again
	}{
		{"all tensors, streamed", fine, "", 3 << 20, nil, false},
		{"all tensors, mapped reads", coarse, "", 3 << 20, mmap, false},
		{"embedding, weights in memory", fine, "token_embd", 0, nil, false},
		{"experts", experts, "ffn_up.", 3 << 20, nil, false},
		{"weights in memory", small, "", 0, nil, true},
		{"mapped", small, "", 0, mapped, false},
		{"mapped in part", fine, "", 2 << 20, mapped, false},
		{"safetensors", hub, "", 3 << 20, nil, false},
		{"all tensors, at the minimum", fine, "", 1, nil, false},
		{"embedding, at the minimum", coarse, "token_embd", 1, nil, false},
		{"mapped reads, at the minimum", coarse, "", 1, mmap, false},
		{"mapped, at the minimum", fine, "", 1, mapped, false},
		{"experts, at the minimum", experts, "", 1, nil, false},
		{"safetensors, at the minimum", hub, "", 1, nil, false},
	} {
		first, last := testutil.Effort(i%2, 0), testutil.Effort(i%2, 1)
		if testing.Short() { // streamed, mapped, and read from a mapping: what other goroutines read while it is damaged
			if first, last = 1, 1; i%5 != 0 {
				continue
			}
		}
		t.Run(test.name, func(t *testing.T) {
			for when := first; when <= last; when++ { // damage before the run, or during it
				c := newDamageCase(t, test.model, test.more, test.change)
				want, reports, err := c.run(t, func(int) {})
				require.NoError(t, err)
				require.Empty(t, reports)
				name := c.pack(t)
				damage := func() {
					testutil.NextFileTime(t) // the change gets another time
					damageTensors(t, name, test.tensors)
				}
				if when == 0 {
					damage()
				}
				got, reports, err := c.run(t, func(n int) {
					if when == 1 && n == 5 {
						damage()
					}
				})
				require.NoError(t, err)
				require.Equal(t, want, got)
				if when == 0 || !test.unread {
					require.Len(t, reports, 1, "when %d", when)
				}
				again, reports, err := c.run(t, func(int) {})
				require.NoError(t, err)
				require.Equal(t, want, again)
				if !test.unread {
					require.Empty(t, reports, "the pack was made again")
				}
			}
		})
	}
}

// keepTimes calls change, and restores the times of a file that it changes.
func keepTimes(t *testing.T, path string, change func()) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	change()
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

// TestDamagedPackWithoutSource damages a pack while the model's own files are damaged, changed or
// gone, so that the run fails and names the pack.
func TestDamagedPackWithoutSource(t *testing.T) {
	t.Parallel()
	mapped := func(o *llmrun.Options) { o.Memory.Pin = "file" }
	for _, test := range []struct {
		name   string
		more   int64
		change func(*llmrun.Options)
		source func(t *testing.T, path string)
		want   string
	}{
		{"damaged", 3 << 20, nil, func(t *testing.T, path string) {
			keepTimes(t, path, func() { damageTensors(t, path, "") })
		}, "they hold other weights than when they were imported"},
		{"damaged, mapped", 0, mapped, func(t *testing.T, path string) {
			keepTimes(t, path, func() { damageTensors(t, path, "") })
		}, "they hold other weights than when they were imported"},
		{"removed", 3 << 20, nil, func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, "no such file"},
		{"truncated", 3 << 20, nil, func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 1000)) }, "m.gguf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newDamageCase(t, untiedModel(t, "q8_0"), test.more, test.change)
			_, _, err := c.run(t, func(int) {})
			require.NoError(t, err)
			name := c.pack(t)
			_, _, err = c.run(t, func(n int) {
				if n == 5 {
					testutil.NextFileTime(t) // the change gets another time
					damageTensors(t, name, "")
					test.source(t, c.model)
				}
			})
			require.ErrorIs(t, err, llmrun.ErrFormat)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, err, test.want)
			require.NoFileExists(t, name)
		})
	}
}

// TestSourceChangesWhileImportedAgain changes the model's own file after its damaged pack was
// removed: the new pack would hold other weights.
func TestSourceChangesWhileImportedAgain(t *testing.T) {
	c := newDamageCase(t, quantizedModel(t), 0, nil)
	_, _, err := c.run(t, func(int) {})
	require.NoError(t, err)
	damageTensors(t, c.pack(t), "attn_q")
	o := c.opts
	o.Notify = func(string) { damageTensors(t, c.model, "attn_k") }
	_, err = llmrun.Open(c.model, o)
	require.ErrorIs(t, err, llmrun.ErrFormat)
	require.ErrorContains(t, err, c.model)
	packs, err := llmrun.CachedPacks(c.opts.Cache.Dir)
	require.NoError(t, err)
	require.Empty(t, packs)
}

// TestPackOfUserIsNotRepaired damages a pack that the user named: there is no other source.
func TestPackOfUserIsNotRepaired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.pack")
	_, err := llmrun.Import(t.Context(), untiedModel(t, "q8_0"), path, llmrun.ImportOptions{Replace: true})
	require.NoError(t, err)
	c := newDamageCase(t, path, 1<<19, nil)
	_, reports, err := c.run(t, func(n int) {
		if n == 5 {
			damageTensors(t, path, "")
		}
	})
	require.ErrorIs(t, err, llmrun.ErrFormat)
	require.ErrorContains(t, err, path)
	require.Empty(t, reports)
	require.FileExists(t, path)
}

// TestMappedPackIsTruncated truncates a cached pack that is mapped while it generates.
func TestMappedPackIsTruncated(t *testing.T) {
	c := newDamageCase(t, quantizedModel(t), 0, func(o *llmrun.Options) { o.Memory.Pin = "file" })
	want, _, err := c.run(t, func(int) {})
	require.NoError(t, err)
	name := c.pack(t)
	got, reports, err := c.run(t, func(n int) {
		if n == 5 {
			require.NoError(t, os.Truncate(name, 5000))
		}
	})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, reports, 1)
	require.NoFileExists(t, name)
}
