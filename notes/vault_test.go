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
	"sync"
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
}

// TestRenamedAndCopiedNotesAreNotEmbedded gives notes other names, whose words find them, and copies them.
func TestRenamedAndCopiedNotesAreNotEmbedded(t *testing.T) {
	e := &wordEmbedder{model: "m"}
	dir := writeVault(t, map[string]string{"fox.md": "Ruby lives near the lake.", "cat.md": "# Henry\nHe sleeps.", "a.md": "The same text.", "b.md": "The same text."})
	v := openVault(t, dir, Options{Embedder: e})
	require.Equal(t, Updated{Notes: 4, Passages: 4, Computed: 4, Embedded: 3, Vectors: 4}, update(t, v))
	require.NoError(t, os.Rename(filepath.Join(dir, "fox.md"), filepath.Join(dir, "vixen.md")))
	write(t, dir, "copy.md", "# Henry\nHe sleeps.")
	require.Equal(t, Updated{Notes: 5, Passages: 5, Computed: 2, Reused: 3, Removed: 1, Vectors: 5}, update(t, v))
	require.Equal(t, "vixen.md", find(t, v, "vixen")[0])
	require.Len(t, e.texts, 3)
	require.Contains(t, e.texts, "Henry\n# Henry\nHe sleeps.")
}

// TestAnotherEncoderIsRefused opens an index with another encoder than the one that it remembers, which is refused until all
// vectors shall be computed again; and without one, which leaves the vectors.
func TestAnotherEncoderIsRefused(t *testing.T) {
	one, other := &wordEmbedder{model: "one"}, &wordEmbedder{model: "other"}
	dir := writeVault(t, map[string]string{"a.md": "A fox.", "b.md": "A hen."})
	v := openVault(t, dir, Options{Embedder: one, EmbedderName: "models/one"})
	file := v.File()
	require.Zero(t, remembered(t, file), "nothing was embedded")
	update(t, v)
	require.Equal(t, Remembered{Name: "models/one", Identity: "one"}, remembered(t, file))
	_, err := OpenWith(dir, nil, Options{File: file, Embedder: other, RAM: llmrun.NoLimit})
	require.ErrorIs(t, err, ErrOtherEncoder)
	require.ErrorContains(t, err, "models/one")

	words := openVault(t, dir, Options{})
	write(t, dir, "c.md", "A cat.")
	require.Equal(t, Updated{Notes: 3, Passages: 3, Computed: 1, Reused: 2}, update(t, words))
	require.Equal(t, "models/one", remembered(t, file).Name)
	require.Equal(t, 1, update(t, v).Embedded, "the vectors of the other notes are there")

	v = openVault(t, dir, Options{Embedder: other, EmbedderName: "models/other", Reembed: true})
	require.Equal(t, "models/one", remembered(t, file).Name, "until the update")
	require.Equal(t, 3, update(t, v).Embedded)
	require.Equal(t, "models/other", remembered(t, file).Name)
	v = openVault(t, dir, Options{Embedder: other, EmbedderName: "models/other"})
	require.Zero(t, update(t, v).Embedded)
	require.NoError(t, v.Forget())
	require.Zero(t, remembered(t, file))
}

// TestAnEncoderThatChangesMeanwhileIsRefused changes the encoder by another handle while one is open.
func TestAnEncoderThatChangesMeanwhileIsRefused(t *testing.T) {
	dir := writeVault(t, map[string]string{"a.md": "A fox."})
	v := openVault(t, dir, Options{Embedder: &wordEmbedder{model: "one"}})
	update(t, v)
	update(t, openVault(t, dir, Options{Embedder: &wordEmbedder{model: "other"}, Reembed: true}))
	_, err := v.Update(context.Background())
	require.ErrorIs(t, err, ErrOtherEncoder)
}

// remembered returns what an index remembers of its encoder.
func remembered(t *testing.T, file string) Remembered {
	t.Helper()
	r, err := RememberedEncoder(file)
	require.NoError(t, err)
	return r
}

// blockingEmbedder waits in its first call of passages until it may go on.
type blockingEmbedder struct {
	wordEmbedder
	begun, resume chan struct{}
	once          sync.Once
}

func (e *blockingEmbedder) Embed(ctx context.Context, texts []string, query bool) ([][]float32, error) {
	if !query {
		e.once.Do(func() { close(e.begun); <-e.resume })
	}
	return e.wordEmbedder.Embed(ctx, texts, query)
}

// TestNotesAreFoundWhileVectorsAreComputed searches during an update, which finds notes by their words, and trims.
func TestNotesAreFoundWhileVectorsAreComputed(t *testing.T) {
	e := &blockingEmbedder{begun: make(chan struct{}), resume: make(chan struct{})}
	e.model = "m"
	v := openVault(t, writeVault(t, map[string]string{"a.md": "A fox.", "b.md": "A hen."}), Options{Embedder: e})
	ended := make(chan error)
	go func() { _, err := v.Update(context.Background()); ended <- err }()
	<-e.begun
	require.Equal(t, []string{"a.md"}, find(t, v, "fox"))
	require.NoError(t, v.Trim())
	require.Equal(t, []string{"b.md"}, find(t, v, "hen"))
	close(e.resume)
	require.NoError(t, <-ended)
	require.NoError(t, v.Trim())
	require.Zero(t, v.Held())
	require.Zero(t, update(t, v).Embedded)
}

// TestBatchesAreOfManyNotes embeds short notes together, and a long one in parts. Each text is one of a passage.
func TestBatchesAreOfManyNotes(t *testing.T) {
	var long strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&long, "Sentence %d of a long note. ", i)
	}
	files := map[string]string{"z.md": long.String()}
	for i := range 70 {
		files[fmt.Sprintf("n%02d.md", i)] = fmt.Sprintf("note number%d", i)
	}
	e := &countingEmbedder{}
	e.model = "m"
	v := openVault(t, writeVault(t, files), Options{Embedder: e})
	var last UpdateProgress
	embedding := 0
	done, err := v.UpdateWith(context.Background(), func(p UpdateProgress) {
		if p.Embedding {
			require.Equal(t, embedding == 0, p.Done == 0)
			require.True(t, p.Done >= last.Done || embedding == 0)
			embedding++
		}
		last = p
	})
	require.NoError(t, err)
	require.Equal(t, done.Vectors, done.Passages)
	require.Equal(t, UpdateProgress{done.Passages, done.Passages, true}, last)
	require.Equal(t, []int{embedTexts, embedTexts}, e.batches[:2])
	require.Greater(t, len(e.batches), 5)
	for i, bytes := range e.bytes {
		require.Less(t, bytes, embedBytes+4<<10, "batch %d", i)
	}
}

// countingEmbedder records the sizes of batches.
type countingEmbedder struct {
	wordEmbedder
	batches, bytes []int
}

func (e *countingEmbedder) Embed(ctx context.Context, texts []string, query bool) ([][]float32, error) {
	e.batches, e.bytes = append(e.batches, len(texts)), append(e.bytes, len(strings.Join(texts, "")))
	return e.wordEmbedder.Embed(ctx, texts, query)
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
	require.Equal(t, []string{"n06.md"}, find(t, v, "number6"))
	require.Empty(t, find(t, v, "number7"))
	e.fail = errors.New("broken model")
	_, err = v.Update(context.Background())
	require.ErrorIs(t, err, e.fail)
	require.ErrorContains(t, err, "n00.md")
	e.fail = nil
	require.NoError(t, v.Close())
	v = openVault(t, dir, Options{Embedder: e})
	done := update(t, v)
	require.Equal(t, Updated{Notes: 20, Passages: 20, Reused: 20, Embedded: 20, Vectors: 20}, done)
	require.Len(t, e.texts, 20)
}

// TestFinishedVectorsSurviveAnInterruption ends an update between two batches of the encoder. The next update computes the rest.
func TestFinishedVectorsSurviveAnInterruption(t *testing.T) {
	files := map[string]string{}
	for i := range 3 * embedTexts {
		files[fmt.Sprintf("n%02d.md", i)] = fmt.Sprintf("This is note number%d.", i)
	}
	dir := writeVault(t, files)
	e := &wordEmbedder{model: "m"}
	v := openVault(t, dir, Options{Embedder: e})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := v.UpdateWith(ctx, func(p UpdateProgress) {
		if p.Embedding && p.Done == embedTexts {
			cancel(stop)
		}
	})
	require.ErrorIs(t, err, stop)
	v = openVault(t, dir, Options{Embedder: e}) // as a new process, whose last one was killed
	done := update(t, v)
	require.Equal(t, 2*embedTexts, done.Embedded)
	require.Len(t, e.texts, 3*embedTexts)
}

// TestNotesThatAreAwayKeepTheirVectors: a directory without notes is perhaps that of a drive that is not here, and the index is not
// rewritten without the vectors.
func TestNotesThatAreAwayKeepTheirVectors(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		var b strings.Builder
		for j := range 4000 {
			fmt.Fprintf(&b, "w%d ", i*4000+j)
		}
		files[fmt.Sprintf("%d.md", i)] = b.String()
	}
	dir, e := writeVault(t, files), &wordEmbedder{model: "m"}
	v := openVault(t, dir, Options{Embedder: e})
	first := update(t, v)
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.Equal(t, Updated{Removed: 10}, update(t, v))
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Rename(dir+".away", dir))
	require.NoError(t, v.Trim()) // as a new process
	require.Equal(t, Updated{Notes: 10, Passages: first.Passages, Computed: 10, Vectors: first.Vectors}, update(t, v))
}

// TestNotesThatVanishStayInTheIndex takes the directory away while its notes are read.
func TestNotesThatVanishStayInTheIndex(t *testing.T) {
	for _, empty := range []bool{false, true} {
		dir := writeVault(t, map[string]string{"a.md": "fox", "b.md": "fox", "c.md": "fox"})
		v := openVault(t, dir, Options{})
		update(t, v)
		require.NoError(t, v.Trim())
		_, err := v.UpdateWith(context.Background(), func(at UpdateProgress) {
			if at.Done == 1 {
				require.NoError(t, os.Rename(dir, dir+".away"))
				if empty {
					require.NoError(t, os.Mkdir(dir, 0o700))
				}
			}
		})
		require.ErrorContains(t, err, dir)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Rename(dir+".away", dir))
		require.Len(t, find(t, v, "fox"), 3)
	}
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
	require.Regexp(t, `^memory budget exceeded: the program with the index of the notes takes at least [0-9.]+ MiB, the budget is 9 MiB; raise the budget$`, err.Error())
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
