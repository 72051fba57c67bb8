package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// These tests ask the demo model questions about long texts and print a table of correct answers
// with exact attention and with selections. They are the quality gates of page selection, and
// with LLMRUN_TEST_LONG=1 the measurement of docs/results/kv.md. LLMRUN_SELECTIONS lists other
// selections to test.

// examiner asks the demo model about texts that it prefills once.
type examiner struct {
	t          *testing.T
	m          *Model
	tok        *token.Tokenizer
	seq        *Sequence
	selections []string
	scores     map[string]*score // by selection
}

// score counts questions, correct answers, and the blocks that selection chose.
type score struct {
	asked, right int
	SelectionStats
}

// selectAll selects all blocks but keeps summaries, so that the same sequence can use other
// selections.
var selectAll = Selection{Fraction: 1}

func newExaminer(t *testing.T) *examiner {
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir(".."))
	require.NoError(t, err)
	m, err := Load(context.Background(), f, Options{Threads: 2, KV: kv.K8V8, Select: selectAll})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	tok, err := f.Tokenizer()
	require.NoError(t, err)
	seq, err := m.NewSequence(0)
	require.NoError(t, err)
	t.Cleanup(seq.Close)
	r := &examiner{t: t, m: m, tok: tok, seq: seq, scores: map[string]*score{}}
	r.selections = []string{"exact", "0.1"}
	if v := os.Getenv("LLMRUN_SELECTIONS"); v != "" {
		r.selections = strings.Split(v, ",")
	}
	for _, name := range r.selections {
		r.scores[name] = &score{}
	}
	return r
}

func (r *examiner) encode(text string) []int32 {
	return testutil.Must(r.tok.Encode(text, token.EncodeOptions{AllowSpecial: true}))
}

// read extends the sequence to ids with exact attention.
func (r *examiner) read(ids []int32) {
	same := 0
	for same < min(len(ids), r.seq.Len()) && ids[same] == r.seq.IDs()[same] {
		same++
	}
	r.seq.Truncate(same)
	r.m.selection = selectAll
	if len(ids) > same {
		require.NoError(r.t, r.m.Extend(context.Background(), r.seq, ids[same:], &ExtendOptions{}))
	}
}

// ask appends a question to the text, with each selection in turn. An answer has at most most
// tokens.
func (r *examiner) ask(question []int32, most int, right func(answer string) bool) {
	held := r.seq.Len()
	require.LessOrEqual(r.t, len(question), selectRows)
	for _, name := range r.selections {
		selection, err := ParseSelection(name)
		require.NoError(r.t, err)
		if r.m.selection = selection; selection.Exact() {
			r.m.selection = selectAll
		}
		s, before := r.scores[name], r.m.selectionStats
		s.asked++
		if right(r.answer(question, most)) {
			s.right++
		}
		s.Candidates += r.m.selectionStats.Candidates - before.Candidates
		s.Selected += r.m.selectionStats.Selected - before.Selected
		r.seq.Truncate(held)
	}
}

// answer decodes greedily.
func (r *examiner) answer(question []int32, most int) string {
	var ids []int32
	next := slices.Clone(question)
	for range most {
		var best int32
		require.NoError(r.t, r.m.Extend(context.Background(), r.seq, next, &ExtendOptions{Each: func(_ int, logits []float32) error {
			best = argmax(logits)
			return nil
		}}))
		if piece, _ := r.tok.Piece(best); piece == "<|im_end|>" {
			break
		}
		ids = append(ids, best)
		next = []int32{best}
	}
	text, err := r.tok.Decode(ids)
	require.NoError(r.t, err)
	return text
}

// report prints a row of the table for each selection and checks the gate: with a tenth of the
// blocks, at least as many answers are right as with exact attention minus 2 %, and at most most
// per cent of the blocks are selected. misses raises the number of allowed wrong answers, for
// tests with too few questions to measure more than whether selection works.
func (r *examiner) report(what string, most int64, misses int) {
	share := func(s *score) float64 { return 100 * float64(s.right) / float64(s.asked) }
	for _, name := range r.selections {
		s := r.scores[name]
		require.NotZero(r.t, s.Candidates)
		r.t.Logf("| %s | %s | %d of %d | %.1f %% | %.1f %% |", what, name, s.right, s.asked, share(s), 100*float64(s.Selected)/float64(s.Candidates))
	}
	exact, tenth := r.scores["exact"], r.scores["0.1"]
	if exact == nil || tenth == nil {
		return
	}
	require.Positive(r.t, exact.right)
	allowed := max(float64(misses), 0.02*float64(exact.asked))
	require.GreaterOrEqual(r.t, float64(tenth.right)+allowed, float64(exact.right), what)
	require.LessOrEqual(r.t, 100*tenth.Selected, most*tenth.Candidates, what)
}

// leastTested is a length in tokens, below which texts have too few blocks to choose from.
const leastTested = 2800

// mostSelected returns the most per cent of the blocks that a tenth selects of a text.
func mostSelected(tokens int) int64 {
	candidates := tokens/kv.BlockTokens - alwaysFirst - alwaysLast
	return max(10, 100*leastSelected/int64(candidates)+3)
}

// needle is a fact hidden in a text.
type needle struct{ question, start, value string }

func (n *needle) String() string {
	return n.start + n.value + "."
}

// needles returns different facts of the kinds that the demo model was trained to find.
func needles(random *rand.Rand, n int) (out []needle) {
	names := strings.Fields("Amy Eli Ella Nick Clara Tom Lucy Grace Alice Jonas Daisy Albert Penny Nora Rosa Leo Martin Omar Tim Ruby Henry Wendy Carl Simon Felix Ben Sara Dan Anna Hugo Ivy Max")
	favorites := []string{"shiny key", "glass bottle", "golden coin", "brown basket", "sweet cake", "paper map"}
	manners := strings.Fields("young careful cheerful gentle small")
	colors := strings.Fields("blue brown black golden orange")
	animals := strings.Fields("otter pony bee fox")
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	for i := range n {
		who := names[i%len(names)]
		switch i % 4 {
		case 0, 1:
			code := fmt.Sprint(10000 + random.IntN(90000))
			out = append(out, needle{"What is the secret code of " + who + "?", "The secret code of " + who + " is ", code})
		case 2:
			out = append(out, needle{"What is the favorite thing of " + who + "?", "The favorite thing of " + who + " is ", "a " + pick(favorites)})
		default:
			out = append(out, needle{"What is the title of the note for " + who + "?", "The title of the note for " + who + " is ", `"` + pick(manners) + " " + pick(colors) + " " + pick(animals) + `"`})
		}
	}
	return out
}

// haystack returns the beginning of a conversation: a text of about the given tokens with facts
// at random places.
func (r *examiner) haystack(random *rand.Rand, text string, tokens int, facts []needle) []int32 {
	lines := strings.SplitAfter(text, "\n")
	start := random.IntN(len(lines))
	per := len(r.encode(text)) / len(lines)
	var picked []string
	for i := range max(1, tokens/max(1, per)) {
		picked = append(picked, lines[(start+i)%len(lines)])
	}
	for len(r.encode(strings.Join(picked, ""))) > tokens && len(picked) > len(facts) {
		picked = picked[:len(picked)-1]
	}
	for i := range facts {
		at := random.IntN(len(picked))
		picked[at] += facts[i].String() + "\n"
	}
	return r.encode("<|im_start|>user\nRead the text and remember the important facts.\n" + strings.Join(picked, "") + "<|im_end|>\n")
}

// askFacts asks for all facts.
func (r *examiner) askFacts(facts []needle) {
	for i := range facts {
		f := &facts[i]
		trimmed := strings.TrimSuffix(f.start, " ")
		question := r.encode("<|im_start|>user\n" + f.question + "<|im_end|>\n<|im_start|>assistant\n" + trimmed)
		r.ask(question, 8, func(answer string) bool { return strings.HasPrefix(strings.TrimSpace(answer), f.value) })
	}
}

// longTests reports whether the full measurement runs, which takes half an hour.
func longTests() bool { return os.Getenv("LLMRUN_TEST_LONG") != "" }

// skipOnSlowKernels skips a test of answers on portable kernels. Other tests prove that all
// kernels give the same logits.
func skipOnSlowKernels(t *testing.T) {
	t.Helper()
	if slowKernels && !longTests() {
		t.Skip("long texts on portable kernels; LLMRUN_TEST_LONG=1 reads them")
	}
}

// TestSelectionFindsNeedles hides facts in long texts. The prefill of the text is exact; the
// question and the answer use the selection. The reference's cases are longer than the texts that are read
// without LLMRUN_TEST_LONG=1.
func TestSelectionFindsNeedles(t *testing.T) {
	skipOnSlowKernels(t)
	text, err := os.ReadFile(testutil.Shared(t, "demo", "long_text.txt"))
	require.NoError(t, err)
	for _, size := range []struct{ tokens, texts int }{{3072, 24}, {4096, 12}, {8192, 8}, {16384, 5}} {
		misses := 0
		if !longTests() {
			misses = 2
			if size.texts = 3; size.tokens > 3072 || testing.Short() {
				continue
			}
		}
		t.Run(fmt.Sprint(size.tokens), func(t *testing.T) {
			r := newExaminer(t)
			random := rand.New(rand.NewPCG(uint64(size.tokens), 3))
			for range size.texts {
				facts := needles(random, 4)
				r.read(r.haystack(random, string(text), size.tokens, facts))
				r.askFacts(facts)
			}
			r.report(fmt.Sprintf("needles in %d tokens", size.tokens), mostSelected(size.tokens), misses)
		})
	}
}

// TestSelectionAnswersTheReference asks the questions of the reference material.
func TestSelectionAnswersTheReference(t *testing.T) {
	skipOnSlowKernels(t)
	var reference struct {
		Cases []struct {
			Prompt []int32 `json:"prompt_ids"`
			Text   string  `json:"expected_text"`
			Want   []int32 `json:"expected_ids"`
		} `json:"long_context"`
	}
	testutil.ReadJSON(t, testutil.Shared(t, "demo", "reference.json"), &reference)
	r := newExaminer(t)
	for _, c := range reference.Cases {
		if len(c.Prompt) < leastTested || !longTests() && (len(c.Prompt) > 4096 || testing.Short()) {
			continue
		}
		const question = 30 // about the tokens of a question, which ends the prompt
		at := len(c.Prompt) - question
		r.read(c.Prompt[:at])
		r.ask(c.Prompt[at:], len(c.Want), func(answer string) bool { return answer == c.Text })
	}
	if r.scores["exact"].asked > 0 {
		r.report("the reference's cases", mostSelected(4096), 0)
	}
}

// TestSelectionExtracts asks the questions about the notes and for their summaries: tasks
// that need much of the text instead of one place.
func TestSelectionExtracts(t *testing.T) {
	skipOnSlowKernels(t)
	var notes struct {
		Notes []struct {
			File      string
			Tokens    int
			Summary   string `json:"expected_summary"`
			Questions []struct{ Question, Expected string }
		}
	}
	testutil.ReadJSON(t, testutil.Shared(t, "demo", "notes", "expected.json"), &notes)
	r := newExaminer(t)
	for _, n := range notes.Notes {
		if n.Tokens < leastTested || !longTests() && (n.Tokens > 4000 || testing.Short()) {
			continue
		}
		text, err := os.ReadFile(testutil.Shared(t, "demo", "notes", n.File))
		require.NoError(t, err)
		start := "<|im_start|>user\n" + strings.TrimSuffix(string(text), "\n") + "\n\n"
		ask := func(question, expected string, most int) {
			ids := r.encode(start + question + "<|im_end|>\n<|im_start|>assistant\n")
			at := len(r.encode(start)) - 2 // a question may change the tokens at the end of the note
			r.read(ids[:at])
			r.ask(ids[at:], most, func(answer string) bool { return strings.TrimSpace(answer) == expected })
		}
		for _, q := range n.Questions {
			ask(q.Question, q.Expected, 100)
		}
		ask("Summarize the note.", n.Summary, 300)
	}
	if r.scores["exact"].asked > 0 {
		r.report("notes", mostSelected(leastTested), 0)
	}
}
