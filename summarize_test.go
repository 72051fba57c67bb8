package llmrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// writer stands for a model: its answer follows from the prompt.
type writer struct {
	calls   int
	prompts []string
	stop    int   // the number of the call that fails, from 1 on; 0: none
	err     error // of that call
	repeat  int   // the number of the call whose answer repeats itself
}

var errKilled = errors.New("killed")

func (w *writer) answer(_ context.Context, step *SummaryStep, report func(read, answered int) error) (SummaryAnswer, error) {
	w.calls++
	w.prompts = append(w.prompts, step.Prompt)
	if w.calls == w.stop {
		return SummaryAnswer{}, w.err
	}
	if err := report(1, 0); err != nil {
		return SummaryAnswer{}, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(step.Prompt)) // never fails
	words := strings.Fields(fmt.Sprintf("Summary %x has words. ", h.Sum64()) + strings.Repeat("More of it follows here. ", 20))
	return SummaryAnswer{Text: strings.Join(words[:min(len(words), step.Tokens/2)], " ") + ".", Repeats: w.calls == w.repeat}, report(1, step.Tokens)
}

// summarizer returns what summarizes a text with w.
func (w *writer) summarizer(text string, o *SummarizeOptions) *summarizer {
	return &summarizer{
		document: TextDocument("doc", text), options: o, model: "m", identity: "id", room: 300,
		count:   func(text string) (int, error) { return len(strings.Fields(text)), nil },
		answer:  w.answer,
		reserve: func(int64) error { return nil },
	}
}

// summarize runs a job on a file system.
func (w *writer) summarize(fsys vfs.FS, text string, o SummarizeOptions) (*Summary, error) {
	s := w.summarizer(text, &o)
	if fsys != nil {
		s.jobs = &jobStore{fsys: fsys, base: "cache"}
	}
	return s.run(context.Background())
}

// longText returns paragraphs of random words.
func longText(r *rand.Rand, paragraphs int) string {
	var b strings.Builder
	for range paragraphs {
		for range 5 {
			for range 8 {
				fmt.Fprintf(&b, "w%d ", r.IntN(500))
			}
			b.WriteString("end. ")
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// stripped returns a summary without what depends on earlier runs.
func stripped(s *Summary) Summary {
	return Summary{Text: s.Text, Parts: s.Parts}
}

// TestSummariesAreTrees expects parts that cover the document, merges until the text is short, and lengths within bounds.
func TestSummariesAreTrees(t *testing.T) {
	text := longText(testutil.Random(t), 40)
	w := &writer{}
	whole, err := w.summarize(nil, text, SummarizeOptions{Words: 40})
	require.NoError(t, err)
	require.Equal(t, w.calls, whole.Computed+whole.ComputedMerges)
	require.Greater(t, whole.Computed, 8)
	require.Greater(t, whole.ComputedMerges, 1)
	require.Less(t, whole.ComputedMerges, whole.Computed)
	require.LessOrEqual(t, len(strings.Fields(whole.Text)), 80)
	at := int64(0)
	for _, part := range whole.Parts {
		require.Equal(t, at, part.Start)
		at = part.End
	}
	require.Equal(t, int64(len(text)), at)

	short, err := (&writer{}).summarize(nil, "One sentence.", SummarizeOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, short.Computed)
	require.Zero(t, short.ComputedMerges)

	w = &writer{}
	refined, err := w.summarize(nil, text, SummarizeOptions{Method: SummarizeRefine})
	require.NoError(t, err)
	require.Zero(t, refined.ComputedMerges)
	require.Equal(t, refined.Parts[len(refined.Parts)-1].Summary, refined.Text)
	for i, prompt := range w.prompts[1:] {
		require.Contains(t, prompt, refined.Parts[i].Summary)
	}
}

// TestPromptsEndWithInstructions expects the instructions behind the text in all prompts.
func TestPromptsEndWithInstructions(t *testing.T) {
	w := &writer{}
	s, err := w.summarize(nil, longText(testutil.Random(t), 20), SummarizeOptions{Instructions: "Name who decides.", Language: "French"})
	require.NoError(t, err)
	require.Len(t, w.prompts, s.Computed+s.ComputedMerges)
	for _, prompt := range w.prompts {
		require.Regexp(t, "Summarize the text in at most [0-9]+ words\\. .* Write in French\\.\n\nName who decides\\.$", prompt)
	}
}

// TestStepsGiveTheSummary computes the steps that Assemble misses, in any order and by several writers, until none is
// missing: the summary is that of one machine. Each step is asked for until it has an answer, and its key stays.
func TestStepsGiveTheSummary(t *testing.T) {
	r := testutil.Random(t)
	text := longText(r, 25)
	for _, o := range []SummarizeOptions{{Words: 40}, {Method: SummarizeRefine}, {Words: 40, Cite: true}, {Words: 40, Again: true}} {
		w := &writer{}
		want, err := w.summarize(nil, text, o)
		require.NoError(t, err)
		answers, computed := map[string]SummaryAnswer{}, 0
		load := func(key string) (SummaryAnswer, bool, error) {
			a, ok := answers[key]
			return a, ok, nil
		}
		for {
			var steps []SummaryStep
			s := (&writer{}).summarizer(text, &o)
			s.load, s.missing = load, func(step SummaryStep) error { steps = append(steps, step); return nil }
			got, err := s.run(context.Background())
			if err == nil {
				require.Empty(t, steps)
				require.Equal(t, stripped(want), stripped(got))
				require.Equal(t, w.calls, computed)
				break
			}
			require.ErrorIs(t, err, ErrAnswersMissing)
			require.NotEmpty(t, steps)
			if o.Method == SummarizeRefine {
				require.Len(t, steps, 1)
			}
			r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			for i := range steps[:(len(steps)+1)/2] { // the others are asked for again
				require.NotContains(t, answers, steps[i].Key)
				answers[steps[i].Key], err = (&writer{}).answer(context.Background(), &steps[i], func(int, int) error { return nil })
				require.NoError(t, err)
				computed++
			}
		}
	}
}

// TestRepeatedAnswersStop expects text that ends with many copies of one piece to be found, and lists, tables and
// refrains to be left alone.
func TestRepeatedAnswersStop(t *testing.T) {
	for text, want := range map[string]string{
		"Actions: " + strings.Repeat("Laura will collect the offer; Olga will print the keys by Thursday; ", 3):         "Actions: Laura will collect the offer; Olga will print the keys by Thursday",
		"Actions: " + strings.Repeat("Laura will collect the offer; Olga will print the keys by Thursday; ", 3) + "L":   "Actions: Laura will collect the offer; Olga will print the keys by Thursday",
		"Rita will print it; Hazel will call them by Friday; " + strings.Repeat("Victor will call them by Friday; ", 6): "Rita will print it; Hazel will call them by Friday; Victor will call them by Friday",
		"So " + strings.Repeat("very ", 40): "So very",
		strings.Repeat("na", 100):           "na",
	} {
		once, repeats := withoutRepeats(text)
		require.True(t, repeats, text)
		require.Equal(t, want, once)
	}
	var table strings.Builder
	for i := range 40 {
		fmt.Fprintf(&table, "| part %d | 0 | 0 | 0 |\n", i)
	}
	for _, text := range []string{
		"", "a", "The same. The same. The same.", table.String(), "Title\n" + strings.Repeat("=", 80) + "\n",
		strings.Repeat("Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, life is but a dream.\n", 2),
	} {
		once, repeats := withoutRepeats(text)
		require.False(t, repeats, text)
		require.Equal(t, text, once)
	}
}

// TestLoops: an answer is stopped for many copies of a piece, and not for what people ask for.
func TestLoops(t *testing.T) {
	line := "The fox went home, and the sun went down behind the hill.\n"
	for text, want := range map[string]bool{
		"Once. " + strings.Repeat(" fox", 150):                   true,
		"Once. " + strings.Repeat(" fox", 140):                   false,
		strings.Repeat(line, 12):                                 true,
		strings.Repeat(line, 5):                                  false,
		strings.Repeat(strings.Repeat(line, 8)+"And then:\n", 7): false,
		strings.Repeat(line, 12) + "And so it ended.":            false,
		"| a | b |\n" + strings.Repeat("| 1 | 0 |\n", 20):        false,
		"": false,
	} {
		require.Equal(t, want, loops(text), "%.40q, %d bytes", text, len(text))
	}
}

// TestRepeatedAnswersAreCounted expects a summary to say that an answer was stopped, also when a rerun finds it saved.
func TestRepeatedAnswersAreCounted(t *testing.T) {
	fsys, text := vfs.NewMem(), longText(testutil.Random(t), 12)
	for range 2 {
		s, err := (&writer{repeat: 2}).summarize(fsys, text, SummarizeOptions{Words: 40})
		require.NoError(t, err)
		require.Equal(t, 1, s.Repeats)
	}
}

// TestBadSummaryOptions expects errors that name the option.
func TestBadSummaryOptions(t *testing.T) {
	for want, o := range map[string]SummarizeOptions{
		"Method is \"x\"":   {Method: "x"},
		"Words is -1":       {Words: -1},
		"PartTokens is 5":   {PartTokens: 5},
		"Cite needs":        {Cite: true, Method: SummarizeRefine},
		"PartTokens is 290": {PartTokens: 290},
		"has no text":       {},
	} {
		err := o.validate()
		if err == nil {
			_, err = (&writer{}).summarize(nil, " \n", o)
		}
		require.ErrorIs(t, err, ErrOptions, want)
		require.ErrorContains(t, err, want)
	}
}

// TestKilledJobsGoOn fails each answer in turn, as a kill would, and runs again: the result is that of a run without
// a kill, and only the part under way is computed twice.
func TestKilledJobsGoOn(t *testing.T) {
	text := longText(testutil.Random(t), 25)
	for _, o := range []SummarizeOptions{{Words: 40}, {Method: SummarizeRefine}, {Words: 40, Cite: true}} {
		w := &writer{}
		want, err := w.summarize(nil, text, o)
		require.NoError(t, err)
		for kill := 1; kill <= w.calls; kill++ {
			fsys := vfs.NewMem()
			first := &writer{stop: kill, err: errKilled}
			_, err := first.summarize(fsys, text, o)
			require.ErrorIs(t, err, errKilled)
			second := &writer{}
			got, err := second.summarize(fsys.CrashClone(0, uint64(kill)), text, o)
			require.NoError(t, err)
			require.Equal(t, stripped(want), stripped(got))
			require.Equal(t, w.calls+1, first.calls+second.calls, "killed at answer %d", kill)
			require.Equal(t, kill-1, got.Reused+got.ReusedMerges)
		}
	}
}

// TestJobsSurvivePowerCuts loses power at each operation of the file system, with all, some or none of what is not
// synced: the next run gives the same result, and loses at most the part whose file was being written.
func TestJobsSurvivePowerCuts(t *testing.T) {
	text, o := longText(testutil.Random(t), 7), SummarizeOptions{Words: 40}
	plain := &writer{}
	want, err := plain.summarize(nil, text, o)
	require.NoError(t, err)
	cuts := int64(0)
	for ; ; cuts++ {
		mem, w := vfs.NewMem(), &writer{}
		done := -1 // answers when the power fails
		var left *vfs.Mem
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Index == cuts {
				done, left = w.calls, mem.CrashClone(float64(cuts%3)/2, uint64(cuts))
			}
			return nil
		})
		_, err := w.summarize(faulty, text, o)
		require.NoError(t, err)
		if done < 0 {
			break
		}
		after := &writer{}
		got, err := after.summarize(left, text, o)
		require.NoError(t, err, "cut at operation %d", cuts)
		require.Equal(t, stripped(want), stripped(got))
		require.LessOrEqual(t, done+after.calls, plain.calls+1, "cut at operation %d", cuts)
	}
	require.Greater(t, cuts, int64(5*plain.calls))
}

// TestAChangedDocumentRecomputesItsChange changes one word, and expects few parts to be computed. The same document
// again computes nothing, and answers of the older text are deleted.
func TestAChangedDocumentRecomputesItsChange(t *testing.T) {
	// How many parts change depends on the text.
	fsys, text := vfs.NewMem(), longText(rand.New(rand.NewPCG(1, 2)), 60)
	o := SummarizeOptions{Words: 40}
	first, err := (&writer{}).summarize(fsys, text, o)
	require.NoError(t, err)
	require.Greater(t, first.Computed, 15)
	again, err := (&writer{}).summarize(fsys, text, o)
	require.NoError(t, err)
	require.Zero(t, again.Computed+again.ComputedMerges)
	require.Equal(t, stripped(first), stripped(again))

	at := len(text) / 2
	changed, err := (&writer{}).summarize(fsys, text[:at]+" new "+text[at:], o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, changed.Computed, 1)
	require.LessOrEqual(t, changed.Computed, 4)
	require.Greater(t, changed.Reused, 10)
	j := &jobStore{fsys: fsys, base: "cache"}
	job, err := j.describe(changed.Job)
	require.NoError(t, err)
	require.Equal(t, JobFinished, job.State)
	require.Equal(t, changed.Text, job.Summary)
	files, err := fsys.ReadDir(j.path(changed.Job))
	require.NoError(t, err)
	require.Len(t, files, 1+len(changed.Parts)+changed.ComputedMerges+changed.ReusedMerges)

	o.Again = true
	fresh, err := (&writer{}).summarize(fsys, text, o)
	require.NoError(t, err)
	require.Zero(t, fresh.Reused)
	other := SummarizeOptions{Words: 40, Language: "French"}
	fresh, err = (&writer{}).summarize(fsys, text, other)
	require.NoError(t, err)
	require.Zero(t, fresh.Reused)
	require.NotEqual(t, changed.Job, fresh.Job)
}

// TestDamagedAnswersAreComputedAgain damages the files of a finished job, and expects the same result.
func TestDamagedAnswersAreComputedAgain(t *testing.T) {
	fsys, text := vfs.NewMem(), longText(testutil.Random(t), 12)
	first, err := (&writer{}).summarize(fsys, text, SummarizeOptions{Words: 40})
	require.NoError(t, err)
	j := &jobStore{fsys: fsys, base: "cache"}
	files, err := fsys.ReadDir(j.path(first.Job))
	require.NoError(t, err)
	for _, file := range files {
		f, err := fsys.Create(j.path(first.Job, file.Name))
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("garbage"), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	_, err = j.describe(first.Job)
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, "llmrun jobs cancel")
	again, err := (&writer{}).summarize(fsys, text, SummarizeOptions{Words: 40})
	require.NoError(t, err)
	require.Equal(t, stripped(first), stripped(again))
	require.Zero(t, again.Reused)
}

// TestCancelledJobsStop cancels a job while it answers: it ends with ErrJobCancelled, and nothing of it stays.
func TestCancelledJobsStop(t *testing.T) {
	fsys, w := vfs.NewMem(), &writer{}
	j := &jobStore{fsys: fsys, base: "cache"}
	o := SummarizeOptions{Words: 40}
	o.Progress = func(p SummaryProgress) {
		if p.Part == 3 && p.Done > 0 {
			dirs, err := fsys.ReadDir("cache/jobs")
			require.NoError(t, err)
			job, err := j.describe(dirs[0].Name)
			require.NoError(t, err)
			require.Equal(t, JobRunning, job.State)
			require.Equal(t, 2, job.Done)
			require.NoError(t, vfs.WriteFile(fsys, j.path(dirs[0].Name, jobCancelMark), nil))
		}
	}
	_, err := w.summarize(fsys, longText(testutil.Random(t), 20), o)
	require.ErrorIs(t, err, ErrJobCancelled)
	require.LessOrEqual(t, w.calls, 3)
	dirs, err := fsys.ReadDir("cache/jobs")
	require.NoError(t, err)
	require.Empty(t, dirs)
}

// TestCitations expects each statement to name its part, also after a merge in which the model lost the numbers.
func TestCitations(t *testing.T) {
	require.Equal(t, "# Title\nIt is said in (4) here. [2] And then more happens. [2]\n- two [2]\n", cite("# Title\nIt is said in [4] here. And then more happens.\n- two\n", 2))
	source := "The shop opens on Monday. [1] Kate buys ten tables. [2]\n\nThe fox is called Ruby. [3]"
	require.Equal(t, "Ten tables are bought by Kate. [2] Ruby is a fox. [3]", citeLike("Ten tables are bought by Kate. Ruby is a fox [3, 9].", source))
	require.Equal(t, "The shop opens, and the fox is Ruby. [1, 3]", citeLike("The shop opens, and the fox is Ruby. [1, 3]", source))
	require.Equal(t, "Facts: the shop opens on Monday; Kate buys tables. [1, 2]", citeLike("Facts: the shop opens on Monday; Kate buys tables. [1]", source), "a list of several parts")
	require.Equal(t, "Facts: Kate buys tables; ten of them. [2]", citeLike("Facts: Kate buys tables; ten of them.", source))

	w := &writer{}
	s, err := w.summarize(nil, longText(testutil.Random(t), 20), SummarizeOptions{Words: 40, Cite: true})
	require.NoError(t, err)
	eachStatement(s.Text, func(statement string) string {
		require.Regexp(t, `\[\d+(, \d+)*\]$`, statement)
		return statement
	})
}

// TestAnswersEndBehindASentence cuts answers that the limit has cut off.
func TestAnswersEndBehindASentence(t *testing.T) {
	require.Equal(t, "One two three. Four five.", lastWhole("One two three. Four five. Six sev"))
	require.Equal(t, "a list\nof lines", lastWhole("a list\nof lines\nand a"))
	require.Equal(t, "no end of it at 3.5 percent", lastWhole("no end of it at 3.5 percent"))
}

// fieldsOf stands for a model that finds the names of a part, and the number of words as a title.
func fieldsOf(_ context.Context, step *SummaryStep, _ func(read, answered int) error) (SummaryAnswer, error) {
	text, _, _ := strings.Cut(step.Prompt, "\n\nExtract")
	title, names := `""`, []string{}
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "w1") && len(names) < 4 {
			names = append(names, fmt.Sprintf("%q", word))
		}
	}
	if step.Part%3 == 0 {
		title = `"third"`
	}
	return SummaryAnswer{Text: fmt.Sprintf(`{"title": %s, "names": [%s]}`, title, strings.Join(names, ","))}, nil
}

// TestFieldsAreMerged extracts fields of each part, with prompts that have the schema, and expects all of them once, without a merge by
// the model.
func TestFieldsAreMerged(t *testing.T) {
	schema := `{"properties":{"title":{"type":"string"},"names":{"type":"array","items":{"type":"string"}}},"required":["title","names"]}`
	o := SummarizeOptions{Schema: schema, Instructions: "Only names."}
	require.NoError(t, o.validate())
	text := longText(testutil.Random(t), 40)
	prompts := ""
	w := &writer{}
	s := w.summarizer(text, &o)
	s.answer = func(ctx context.Context, step *SummaryStep, report func(read, answered int) error) (SummaryAnswer, error) {
		prompts += step.Prompt
		require.Equal(t, s.sizes.Part/2, step.Tokens)
		return fieldsOf(ctx, step, report)
	}
	got, err := s.run(context.Background())
	require.NoError(t, err)
	require.Greater(t, len(got.Parts), 4)
	require.Zero(t, got.ComputedMerges)
	require.Equal(t, len(got.Parts), strings.Count(prompts, schema))
	require.Equal(t, len(got.Parts), strings.Count(prompts, o.Instructions))
	var fields struct {
		Title string
		Names []string
	}
	require.NoError(t, json.Unmarshal([]byte(got.Text), &fields))
	require.Equal(t, "third", fields.Title)
	require.Greater(t, len(fields.Names), len(got.Parts))
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(fields.Names))), len(fields.Names), "each name once")
	for _, part := range got.Parts {
		require.True(t, json.Valid([]byte(part.Summary)))
	}
}

// TestMergesOfFieldsAreCounted expects the error of a reservation for the merge of answers with many values.
func TestMergesOfFieldsAreCounted(t *testing.T) {
	o := SummarizeOptions{Schema: `{"type":"array","items":{"type":"integer"}}`}
	s := (&writer{}).summarizer(longText(testutil.Random(t), 40), &o)
	s.answer = func(context.Context, *SummaryStep, func(read, answered int) error) (SummaryAnswer, error) {
		return SummaryAnswer{Text: "[1" + strings.Repeat(",1", 2000) + "]"}, nil
	}
	reservations := 0
	s.reserve = func(int64) error {
		if reservations++; reservations > 1 { // the first one is for the prompts and the answers
			return ErrBudget
		}
		return nil
	}
	_, err := s.run(context.Background())
	require.ErrorIs(t, err, ErrBudget)
}

// TestFieldsAreRefused checks the errors of schemas and of options that contradict them.
func TestFieldsAreRefused(t *testing.T) {
	for _, o := range []SummarizeOptions{{Schema: "{}", Words: 5}, {Schema: "{}", Cite: true}, {Schema: "{}", Method: SummarizeRefine}} {
		require.ErrorIs(t, o.validate(), ErrOptions)
	}
	o := SummarizeOptions{Schema: `{"properties":{"a":{"not":{}}}}`}
	require.ErrorIs(t, o.validate(), ErrConstraint)
	require.ErrorContains(t, o.validate(), "#/properties/a/not")
}
