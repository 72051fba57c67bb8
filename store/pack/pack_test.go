package pack

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sample is the input of a test: the contents, and the rows of every tensor as a source has
// them.
type sample struct {
	Contents
	plain map[string][]byte
}

// add appends a tensor with random bytes to the last section.
func (s *sample) add(name string, typ quant.Type, layout Layout, shape ...int) {
	if s.plain == nil {
		s.plain = map[string][]byte{}
	}
	size, _, err := store.Bytes(typ, shape)
	if err != nil {
		panic(err)
	}
	data := make([]byte, size)
	random := rand.New(rand.NewPCG(uint64(len(s.plain)), 5))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	last := &s.Sections[len(s.Sections)-1]
	last.Tensors = append(last.Tensors, Tensor{Name: name, Type: typ, Shape: shape, Layout: layout})
	s.plain[name] = data
}

func (s *sample) section(name string) { s.Sections = append(s.Sections, Section{Name: name}) }

// body writes the bytes of the tensors in pieces that cross tensor boundaries.
func (s *sample) body(w io.Writer) error {
	var all []byte
	for _, sec := range s.Sections {
		for _, t := range sec.Tensors {
			data := s.plain[t.Name]
			if t.Layout == Tiles {
				n, err := tiled.Bytes(t.Type, t.Shape[0], t.Shape[1])
				if err != nil {
					return err
				}
				data = make([]byte, n)
				tiled.Pack(data, t.Type, s.plain[t.Name], t.Shape[0], t.Shape[1])
			}
			all = append(all, data...)
		}
	}
	for len(all) > 0 {
		n := min(len(all), 4999)
		if _, err := w.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// small is the sample of the golden file: every layout, a vector, a partial tile, an
// attachment and an empty one.
func small() *sample {
	s := &sample{Contents: Contents{
		About:       About{CreatedBy: "llmrun test", Source: "small.gguf", SourceBytes: 12345, Fingerprint: Fingerprint{1, 2, 3}},
		Attachments: []Attachment{{"config.json", []byte(`{"a": 1}`)}, {"empty", nil}},
	}}
	s.section("embedding")
	s.add("token_embd.weight", quant.Q8_0, Rows, 5, 64)
	s.section("ends")
	s.add("output_norm.weight", quant.F32, Rows, 65)
	s.add("output.weight", quant.Q4_0, Tiles, 19, 64)
	s.section("blk.0")
	s.add("blk.0.attn_q.weight", quant.Q6_K, Tiles, 16, 256)
	s.add("blk.0.ffn_up.3.weight", quant.F16, Rows, 3, 7)
	return s
}

// large returns sections of several blocks with a short last block.
func large() *sample {
	s := &sample{Contents: Contents{About: About{Source: "large"}}}
	for l := range 2 {
		s.section(fmt.Sprintf("blk.%d", l))
		s.add(fmt.Sprintf("blk.%d.a", l), quant.Q8_0, Tiles, 1000, 1024)
		s.add(fmt.Sprintf("blk.%d.b", l), quant.F32, Rows, 300, 1001)
	}
	return s
}

// write writes a sample as m.pack to a file system in memory.
func (s *sample) write(t testing.TB) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.pack", s.Contents, s.body))
	return fsys
}

func open(t testing.TB, fsys vfs.FS) *File {
	t.Helper()
	f, err := Open(fsys, "m.pack")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// check compares everything that a pack returns with the sample.
func (s *sample) check(t *testing.T, f *File) {
	t.Helper()
	require.NoError(t, f.Verify(context.Background(), nil))
	want := s.About
	want.Tiling = tiled.LayoutVersion
	require.Equal(t, want, f.About())
	require.Len(t, f.Tensors(), len(s.plain))
	for _, sec := range s.Sections {
		for _, packed := range sec.Tensors {
			tensor, ok := f.Tensor(packed.Name)
			require.True(t, ok)
			require.Equal(t, packed.Type, tensor.Type)
			require.Equal(t, packed.Shape, tensor.Shape)
			got := make([]byte, tensor.Size)
			n, err := f.ReadAt(tensor, got, 0)
			require.NoError(t, err)
			require.Equal(t, len(got), n)
			require.True(t, bytes.Equal(s.plain[packed.Name], got), packed.Name)
		}
	}
	for _, a := range s.Attachments {
		got, err := vfs.ReadFile(f.Attachments(), a.Name, 1<<20)
		require.NoError(t, err)
		require.Equal(t, string(a.Data), string(got))
	}
}

func TestWriteThenRead(t *testing.T) {
	for name, s := range map[string]*sample{"small": small(), "large": large()} {
		t.Run(name, func(t *testing.T) {
			fsys := s.write(t)
			f := open(t, fsys)
			s.check(t, f)
			want, err := s.Bytes()
			require.NoError(t, err)
			require.InDelta(t, want, f.Size(), 4096+100*float64(len(s.plain)), "Contents.Bytes predicts the length")
			left, err := fsys.ReadDir(".")
			require.NoError(t, err)
			require.Len(t, left, 1, "no temporary file and no lock remain")
		})
	}
}

// TestReadAnywhere reads ranges of tensors, some across blocks and tiles.
func TestReadAnywhere(t *testing.T) {
	s := large()
	f := open(t, s.write(t))
	random := rand.New(rand.NewPCG(1, 1))
	for name, want := range s.plain {
		tensor, _ := f.Tensor(name)
		for range 20 {
			off := random.Int64N(tensor.Size)
			p := make([]byte, min(tensor.Size-off, random.Int64N(1<<(8+random.IntN(14)))))
			_, err := f.ReadAt(tensor, p, off)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want[off:][:len(p)], p), "%d bytes of %s at %d", len(p), name, off)
		}
		_, err := f.ReadAt(tensor, make([]byte, 2), tensor.Size-1)
		require.ErrorContains(t, err, "outside tensor")
		_, err = f.ReadAt(tensor, make([]byte, 2), -1)
		require.ErrorContains(t, err, "outside tensor")
	}
	_, err := f.ReadAt(store.Tensor{Name: "stranger", Size: 8}, make([]byte, 2), 0)
	require.ErrorContains(t, err, "another source")
}

// TestSectionsHoldTensors reads sections as the engine does: tensors are where Find says,
// aligned and in their layout.
func TestSectionsHoldTensors(t *testing.T) {
	s := small()
	f := open(t, s.write(t))
	for _, sec := range s.Sections {
		for _, packed := range sec.Tensors {
			place, ok := f.Find(packed.Name)
			require.True(t, ok)
			require.Zero(t, place.Off%Align)
			frame := make([]byte, f.SectionSize(place.Section))
			_, err := f.Section(place.Section).ReadAt(frame, 0)
			require.NoError(t, err)
			got := frame[place.Off:][:place.Bytes]
			if packed.Layout == Rows {
				require.Equal(t, s.plain[packed.Name], got)
				continue
			}
			want := make([]byte, place.Bytes)
			tiled.Pack(want, packed.Type, s.plain[packed.Name], packed.Shape[0], packed.Shape[1])
			require.Equal(t, want, got)
		}
	}
	_, ok := f.Find("stranger")
	require.False(t, ok)
	_, err := f.Section(2).ReadAt(make([]byte, 1), f.SectionSize(2))
	require.ErrorContains(t, err, "outside section")
}

func TestAttachments(t *testing.T) {
	fsys := open(t, small().write(t)).Attachments()
	_, err := fsys.Stat("config.json")
	require.NoError(t, err)
	_, err = fsys.Open("missing.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
	info, err := fsys.Stat(".")
	require.NoError(t, err)
	require.True(t, info.IsDir)
	_, err = fsys.Create("new")
	require.ErrorIs(t, err, vfs.ErrReadOnly)
}

func TestIs(t *testing.T) {
	fsys := small().write(t)
	require.True(t, Is(fsys, "m.pack"))
	require.False(t, Is(fsys, "missing"))
	for name, data := range map[string]string{"empty": "", "short": "LLMR", "other": "GGUF\x03\x00\x00\x00more"} {
		require.NoError(t, vfs.WriteFile(fsys, name, []byte(data)))
		require.False(t, Is(fsys, name), name)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden opens a file of an earlier program and writes it again: the format does not
// change.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "version2.pack")
	s := small()
	fsys := s.write(t)
	if *update {
		data, err := vfs.ReadFile(fsys, "m.pack", 1<<20)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	f, err := Open(vfs.OS(), path)
	require.NoError(t, err)
	defer f.Close()
	s.check(t, f)
	want, err := vfs.ReadFile(vfs.OS(), path, 1<<20)
	require.NoError(t, err)
	got, err := vfs.ReadFile(fsys, "m.pack", 1<<20)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "equal contents give equal files")
}
