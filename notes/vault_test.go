package notes

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// writeVault creates a directory of notes.
func writeVault(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
}

// openVault opens the notes of a directory with an index beside it.
func openVault(t *testing.T, dir string, o Options) *Vault {
	t.Helper()
	o.File = filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".cache", "notes.index")
	if o.RAM == 0 {
		o.RAM = llmrun.NoLimit
	}
	v, err := OpenWith(dir, nil, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

// update updates a vault.
func update(t *testing.T, v *Vault) Updated {
	t.Helper()
	done, err := v.Update(context.Background())
	require.NoError(t, err)
	return done
}

// find returns the files of the hits.
func find(t *testing.T, v *Vault, question string) (files []string) {
	t.Helper()
	hits, err := v.Search(context.Background(), question, SearchOptions{})
	require.NoError(t, err)
	for _, hit := range hits {
		files = append(files, hit.File)
	}
	return files
}

// wordEmbedder gives texts with a word in common vectors with an element in common. It counts texts.
type wordEmbedder struct {
	model   string
	texts   []string
	queries int
	fail    error
}

func (e *wordEmbedder) Identity() string { return e.model }

func (e *wordEmbedder) Embed(_ context.Context, texts []string, query bool) (all [][]float32, err error) {
	if e.fail != nil {
		return nil, e.fail
	}
	if query {
		e.queries++
	} else {
		e.texts = append(e.texts, texts...)
	}
	for _, text := range texts {
		x := make([]float32, 64)
		for word := range strings.FieldsSeq(text) {
			h := fnv.New32a()
			_, _ = h.Write([]byte(strings.ToLower(strings.Trim(word, ".,?!"))))
			x[h.Sum32()%64]++
		}
		all = append(all, x)
	}
	return all, nil
}

// TestUpdateComputesWhatHasChanged changes, moves and removes notes, and counts what is computed.
func TestUpdateComputesWhatHasChanged(t *testing.T) {
	e := &wordEmbedder{model: "m"}
	dir := writeVault(t, map[string]string{
		"fox.md": "# The fox\nRuby the fox lives near the lake.", "sub/cat.md": "---\naliases: [Henry]\n---\nThe cat sleeps all day.",
		"dog.md": "The dog barks.", "image.png": "x", "bad.md": "caf\xe9 \x00",
	})
	v := openVault(t, dir, Options{Embedder: e})
	require.Equal(t, Updated{Notes: 3, Passages: 3, Computed: 3, Embedded: 3, Vectors: 3, Skipped: 1}, update(t, v))
	require.Equal(t, "fox.md", find(t, v, "Where does Ruby live?")[0])
	require.Equal(t, "sub/cat.md", find(t, v, "henry")[0], "an alias")

	require.Equal(t, Updated{Notes: 3, Passages: 3, Reused: 3, Vectors: 3, Skipped: 1}, update(t, v))
	write(t, dir, "dog.md", "The dog sleeps now, near Bergen.")
	require.NoError(t, os.Rename(filepath.Join(dir, "fox.md"), filepath.Join(dir, "sub", "fox.md")))
	require.NoError(t, os.Remove(filepath.Join(dir, "sub", "cat.md")))
	require.Equal(t, Updated{Notes: 2, Passages: 2, Computed: 2, Removed: 2, Embedded: 1, Vectors: 2, Skipped: 1}, update(t, v), "the text of the fox has its vector already")
	require.Equal(t, "dog.md", find(t, v, "Bergen")[0])
	require.Equal(t, []string{"sub/fox.md"}, find(t, v, "Ruby")[:1])

	require.NoError(t, v.Close())
	_, err := v.Update(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	v = openVault(t, dir, Options{Embedder: e})
	require.Equal(t, Updated{Notes: 2, Passages: 2, Reused: 2, Vectors: 2, Skipped: 1}, update(t, v))
	require.Len(t, e.texts, 4)
	other := &wordEmbedder{model: "other"}
	v = openVault(t, dir, Options{Embedder: other})
	require.Equal(t, 2, update(t, v).Embedded)
}

// TestFinishedNotesSurviveAnInterruption ends an update in the middle, by its context and by an error of the model.
func TestFinishedNotesSurviveAnInterruption(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("n%02d.md", i)] = fmt.Sprintf("This is note number%d.", i)
	}
	dir := writeVault(t, files)
	e := &wordEmbedder{model: "m"}
	v := openVault(t, dir, Options{Embedder: e})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := v.UpdateWith(ctx, func(p UpdateProgress) {
		require.Equal(t, 20, p.Total)
		if p.Done == 7 {
			cancel(stop)
		}
	})
	require.ErrorIs(t, err, stop)
	require.NoError(t, v.Close())
	v = openVault(t, dir, Options{Embedder: e})
	require.Len(t, find(t, v, "number6"), 7)
	e.fail = errors.New("broken model")
	_, err = v.Update(context.Background())
	require.ErrorIs(t, err, e.fail)
	require.ErrorContains(t, err, "n07.md")
	e.fail = nil
	done := update(t, v)
	require.Equal(t, 13, done.Embedded)
	require.Equal(t, 20, done.Vectors)
	require.Len(t, e.texts, 20)
}

// TestSearchLeavesOutWhatHasChanged changes a note behind the back of the index.
func TestSearchLeavesOutWhatHasChanged(t *testing.T) {
	dir := writeVault(t, map[string]string{"a.md": "The fox is red.", "b.md": "The fox is grey.", "c.md": "The fox is white."})
	v := openVault(t, dir, Options{})
	update(t, v)
	require.Len(t, find(t, v, "fox"), 3)
	write(t, dir, "a.md", "The hen is red.")
	require.NoError(t, os.Remove(filepath.Join(dir, "b.md")))
	require.Equal(t, []string{"c.md"}, find(t, v, "fox"))
	update(t, v)
	require.Equal(t, []string{"a.md"}, find(t, v, "hen"))
}

// TestHitsAreRangesOfTheirFiles compares the text of hits with their files, in a note with front matter and long text.
func TestHitsAreRangesOfTheirFiles(t *testing.T) {
	text := "\ufeff---\ntags: [x]\n---\n\n# Üben\n\n" + strings.Repeat("A sentence about Straßen and größere things, with café. ", 200)
	dir := writeVault(t, map[string]string{"a.md": text})
	v := openVault(t, dir, Options{})
	update(t, v)
	hits, err := v.Search(context.Background(), "strassen", SearchOptions{PerNote: 100, Most: 100})
	require.NoError(t, err)
	require.Greater(t, len(hits), 5)
	for _, hit := range hits {
		require.Equal(t, text[hit.Start:hit.End], hit.Text)
		require.Equal(t, strings.TrimSpace(hit.Text), hit.Text)
	}
}

// reverseRanker prefers the texts that begin last in the alphabet.
type reverseRanker struct{}

func (reverseRanker) Rank(_ context.Context, _ string, texts []string) (scores []float32, err error) {
	sorted := slices.Sorted(slices.Values(texts))
	for _, text := range texts {
		scores = append(scores, float32(slices.Index(sorted, text)))
	}
	return scores, nil
}

// TestARankerSortsTheHits expects the ranker's order, also of passages that the search alone would not have returned.
func TestARankerSortsTheHits(t *testing.T) {
	dir := writeVault(t, map[string]string{"a.md": "fox fox fox", "b.md": "fox fox and hen", "c.md": "fox and a hen and more"})
	v := openVault(t, dir, Options{})
	update(t, v)
	require.Equal(t, []string{"a.md", "b.md", "c.md"}, find(t, v, "fox"))
	v = openVault(t, dir, Options{Ranker: reverseRanker{}})
	hits, err := v.Search(context.Background(), "fox", SearchOptions{Most: 1})
	require.NoError(t, err)
	require.Equal(t, "c.md", hits[0].File)
}

// TestQuestionsAreEmbeddedOnce asks questions again.
func TestQuestionsAreEmbeddedOnce(t *testing.T) {
	e := &wordEmbedder{model: "m"}
	v := openVault(t, writeVault(t, map[string]string{"a.md": "fox"}), Options{Embedder: e})
	update(t, v)
	for i := range 3 * mostQueries {
		find(t, v, fmt.Sprint("fox ", i/3))
	}
	require.Equal(t, mostQueries, e.queries)
	find(t, v, "one more")
	find(t, v, "fox 0")
	require.Equal(t, mostQueries+2, e.queries)
}

// TestTrimReleasesTheIndex trims a vault, and searches again.
func TestTrimReleasesTheIndex(t *testing.T) {
	v := openVault(t, writeVault(t, map[string]string{"a.md": "fox"}), Options{})
	update(t, v)
	require.Positive(t, v.Held())
	require.NoError(t, v.Trim())
	require.Zero(t, v.Held())
	require.Equal(t, []string{"a.md"}, find(t, v, "fox"))
	require.Positive(t, v.Held())
}

// TestManyNotesStayWithinTheBudget indexes notes whose index takes more than the budget, and expects the budget's error;
// and as many as are needed with 128 MiB.
func TestManyNotesStayWithinTheBudget(t *testing.T) {
	files := map[string]string{}
	r := testutil.Random(t)
	for i := range testutil.Effort(200, 10000) {
		var b strings.Builder
		for range 400 {
			fmt.Fprintf(&b, "w%dx ", int(r.ExpFloat64()*3000))
		}
		files[fmt.Sprintf("%d/%d.md", i%50, i)] = b.String()
	}
	dir := writeVault(t, files)
	v := openVault(t, dir, Options{RAM: 128 << 20})
	done := update(t, v)
	require.Equal(t, len(files), done.Notes)
	t.Logf("%d notes, %d passages: %d bytes reserved", done.Notes, done.Passages, v.Held())
	require.Less(t, v.Held(), int64(100<<20))
	require.NoError(t, v.Close())
	_, err := OpenWith(dir, nil, Options{RAM: 9 << 20, File: v.options.File})
	require.ErrorIs(t, err, llmrun.ErrBudget)
}

// TestAnIndexSharesTheEnginesBudget opens a vault beside the bundled model with a limit of memory. What the index takes is in
// the engine's ledger until the vault is closed.
func TestAnIndexSharesTheEnginesBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("opens the bundled model")
	}
	engine, err := llmrun.Open(filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model.pack"), llmrun.Options{Context: 512, Memory: llmrun.MemoryOptions{RAM: 200 << 20}})
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	dir := writeVault(t, map[string]string{"a.md": "fox"})
	before := engine.Memory().Held["heap"]
	v, err := OpenWith(dir, engine, Options{File: filepath.Join(t.TempDir(), "notes.index")})
	require.NoError(t, err)
	update(t, v)
	require.Positive(t, v.Held())
	require.Equal(t, before+v.Held(), engine.Memory().Held["heap"])
	require.Equal(t, []string{"a.md"}, find(t, v, "fox"))
	require.NoError(t, v.Close())
	require.Equal(t, before, engine.Memory().Held["heap"])
}
