package synth

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

func write(t *testing.T, o Options) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, Write(t.Context(), fsys, "m.gguf", o))
	return fsys
}

// TestModelsCompute loads a small model of every family and mix and checks that its logits
// are finite and depend on the token and on the context.
func TestModelsCompute(t *testing.T) {
	families := map[string]bool{}
	for i, s := range Shapes() {
		family := s.Arch
		if s.Arch == "gemma4" && s.Experts > 0 {
			family += " experts"
		}
		if families[family] {
			continue
		}
		families[family] = true
		for j, mix := range Mixes() {
			if (i+j)%3 != 0 && s.Arch != "llama" { // all pairs would add little
				continue
			}
			t.Run(family+" "+mix, func(t *testing.T) {
				fsys := write(t, Options{Shape: s.Reduced(), Quant: mix})
				first, second := predict(t, fsys, []int32{1, 2, 3}), predict(t, fsys, []int32{3, 2, 1})
				require.NotEqual(t, first, second)
				for _, logits := range [][]float32{first, second} {
					std := deviation(logits)
					require.False(t, math.IsNaN(std) || std < 0.1 || std > 30, "logits spread by %v", std)
				}
			})
		}
	}
	require.Len(t, families, 33)
}

// predict returns the logits after ids.
func predict(t *testing.T, fsys vfs.FS, ids []int32) (logits []float32) {
	t.Helper()
	files, err := modelfile.Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer files.Close()
	model, err := exec.Load(t.Context(), files, exec.Options{Threads: 1, KV: kv.F32})
	require.NoError(t, err)
	defer model.Close()
	seq, err := model.NewSequence(0)
	require.NoError(t, err)
	defer seq.Close()
	require.NoError(t, model.Extend(t.Context(), seq, ids, &exec.ExtendOptions{Hidden: model.Spec.Headless, Each: func(_ int, row []float32) error {
		logits = slices.Clone(row)
		return nil
	}}))
	return logits
}

func deviation(values []float32) float64 {
	var sum, squares float64
	for _, v := range values {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(values))
	return math.Sqrt(squares/n - sum/n*(sum/n))
}

func TestTokenizer(t *testing.T) {
	for _, s := range Shapes() {
		if s.Encoder.on() {
			continue
		}
		fsys := write(t, Options{Shape: s.Reduced(), Quant: "q8_0"})
		tokenizer, err := modelfile.OpenTokenizer(fsys, "m.gguf")
		require.NoError(t, err, s.Name)
		const text = "the cat, the tree\n\x00 w270 ÿ"
		ids := testutil.Must(tokenizer.Encode(text, token.EncodeOptions{}))
		require.Less(t, len(ids), len(text), "%s: no merge was applied", s.Name)
		for _, id := range ids {
			require.Less(t, int(id), 256+len(mergedTokens), "%s: the text contains a filler", s.Name)
		}
		back, err := tokenizer.Decode(ids)
		require.NoError(t, err)
		require.Equal(t, text, back, s.Name)
		require.Equal(t, []int32{299}, tokenizer.EOS(), s.Name)
	}
}

// TestTokenizerOfEncoders: a word w0, w1, … is one token, and other text is read by its characters.
func TestTokenizerOfEncoders(t *testing.T) {
	for _, name := range []string{"bge-small", "nomic-embed-text"} {
		s, _ := FindShape(name)
		tokenizer := testutil.Must(modelfile.OpenTokenizer(write(t, Options{Shape: s.Reduced(), Quant: "q8_0"}), "m.gguf"))
		first := int32(len(wordPieceSpecials) + 2*94)
		ids := testutil.Must(tokenizer.Encode("w0 w101 c", token.EncodeOptions{AddSpecial: true}))
		require.Equal(t, []int32{2, first, first + 101, 5 + 2*('c'-'!'), 3}, ids)
		require.Len(t, testutil.Must(tokenizer.Encode("w1234", token.EncodeOptions{})), 3, "a filler that the small vocabulary lacks")
	}
}

func TestSameOptionsSameBytes(t *testing.T) {
	bytesOf := func(seed uint64) []byte {
		o := Options{Shape: shapes[0].Reduced(), Quant: "q4_k_m", Seed: seed}
		data, err := vfs.ReadFile(write(t, o), "m.gguf", 1<<30)
		require.NoError(t, err)
		return data
	}
	require.Equal(t, bytesOf(1), bytesOf(1))
	require.NotEqual(t, bytesOf(1), bytesOf(2))
}

func TestContextReplacesThatOfTheShape(t *testing.T) {
	files, err := modelfile.Open(write(t, Options{Shape: shapes[0].Reduced(), Quant: "q4_0", Context: 777}), "m.gguf")
	require.NoError(t, err)
	defer files.Close()
	require.Equal(t, 777, files.Hyper.Context)
}

func TestProgress(t *testing.T) {
	o := Options{Shape: shapes[0].Reduced(), Quant: "q4_0"}
	var done, total int64
	o.Progress = func(d, n int64) { require.GreaterOrEqual(t, d, done); done, total = d, n }
	write(t, o)
	require.Equal(t, total, done)
	size, err := o.Shape.Bytes("q4_0")
	require.NoError(t, err)
	require.Equal(t, size, total)
}

func TestFailuresLeaveNoFile(t *testing.T) {
	o := Options{Shape: shapes[0].Reduced(), Quant: "q4_0"}
	t.Run("full disk", func(t *testing.T) {
		disk := vfs.NewMem()
		full := vfs.NewFaulty(disk, func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		})
		err := Write(t.Context(), full, "m.gguf", o)
		require.ErrorIs(t, err, ErrDiskFull)
		require.ErrorContains(t, err, "m.gguf")
		requireEmpty(t, disk)
	})
	t.Run("cancelled", func(t *testing.T) {
		disk := vfs.NewMem()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, Write(ctx, disk, "m.gguf", o), context.Canceled)
		requireEmpty(t, disk)
	})
	for _, bad := range []struct {
		reason string
		spoil  func(o *Options)
	}{
		{"Quant", func(o *Options) { o.Quant = "q9" }},
		{"Shape", func(o *Options) { o.Shape.Arch = "gpt5" }},
		{"Shape", func(o *Options) { o.Shape.Vocab = 10 }},
		{"Context", func(o *Options) { o.Context = -1 }},
		{"RouterSkew", func(o *Options) { o.RouterSkew = math.NaN() }},
	} {
		disk, spoiled := vfs.NewMem(), o
		bad.spoil(&spoiled)
		err := Write(t.Context(), disk, "m.gguf", spoiled)
		require.ErrorIs(t, err, ErrOptions)
		require.ErrorContains(t, err, bad.reason)
		requireEmpty(t, disk)
	}
}

func requireEmpty(t *testing.T, fsys vfs.FS) {
	t.Helper()
	entries, err := fsys.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestRouterSkew counts the experts that random vectors select.
func TestRouterSkew(t *testing.T) {
	const experts, used, cols, tokens = 64, 8, 128, 500
	busiest := func(skew float64) float64 { // fraction of the busiest eighth of the experts
		rows := router(newSource(1, "router"), experts, cols, skew)
		counts := make([]int, experts)
		src := newSource(2, "vectors")
		for range tokens {
			x := gains(src, cols)
			src.next()
			for i := range x {
				x[i] = float32(src.uniform())
			}
			for _, e := range highest(rows, x, used) {
				counts[e]++
			}
		}
		slices.Sort(counts)
		sum := 0
		for _, n := range counts[experts-experts/8:] {
			sum += n
		}
		return float64(sum) / (tokens * used)
	}
	even, uneven := busiest(0), busiest(1)
	require.Less(t, even, 0.25, "an eighth of the experts does about an eighth of the work")
	require.Greater(t, uneven, 0.4, "an eighth of the experts does nearly half of the work")
}

// highest returns the n rows with the highest products with x.
func highest(rows, x []float32, n int) []int {
	scores := make([]float32, len(rows)/len(x))
	order := make([]int, len(scores))
	for i := range scores {
		order[i] = i
		for j, v := range x {
			scores[i] += rows[i*len(x)+j] * v
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return int(math.Copysign(1, float64(scores[b]-scores[a])))
	})
	return order[:n]
}

func TestNamesAreFound(t *testing.T) {
	for _, s := range Shapes() {
		found, ok := FindShape(strings.ToUpper(s.Name))
		require.True(t, ok)
		require.Equal(t, s, found)
	}
	_, ok := FindShape("nothing")
	require.False(t, ok)
}

// TestGuideListsShapes: the guide names each shape once.
func TestGuideListsShapes(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/models.md")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(guide), "| | shapes |")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, s := range Shapes() {
		require.Equal(t, 1, strings.Count(list, "`"+s.Name+"`"), s.Name)
	}
	require.Equal(t, 2*len(Shapes()), strings.Count(list, "`"))
}
