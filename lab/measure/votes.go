package measure

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
)

// VoteNote is a note with questions.
type VoteNote struct {
	Text      string
	Questions []VoteQuestion
}

// VoteQuestion is a question about a note and the right answer.
type VoteQuestion struct{ Question, Want string }

// VotesOptions configure AskVotes.
type VotesOptions struct {
	Path        string // of the model
	FS          fs.FS
	Threads     int
	Notes       []VoteNote
	Actions     int // action items that are added to a copy of each note, with two questions about each
	Copies      int // of each note, with other action items
	Samples     int
	Temperature float64
	Seed        uint64
	Running     func(done, total int64) // questions
}

// VotesReport compares the majority of several answers with one answer.
type VotesReport struct {
	Model       string        `json:"model"`
	Machine     bench.Machine `json:"machine"`
	Samples     int           `json:"samples"`
	Temperature float64       `json:"temperature"`
	Seed        uint64        `json:"seed"`
	Questions   int           `json:"questions"`
	One         int           `json:"one_right"`  // by the first sample
	Mean        float64       `json:"mean_right"` // questions that a sample answers right, on average
	Vote        int           `json:"vote_right"` // by the majority
	Best        int           `json:"best_right"` // by the sample with the greatest mean log-probability
	// OverOne is how much more questions the majority answers right than the first sample, and OverMean than a
	// sample does on average.
	OverOne  VoteGain `json:"over_one"`
	OverMean VoteGain `json:"over_mean"`
	// TokensPerPass is the mean number of tokens of answers that a pass gave.
	TokensPerPass float64 `json:"tokens_per_pass"`
}

// VoteGain is a mean of differences of pairs, as a fraction of the questions, with its 95 per cent bootstrap interval.
type VoteGain struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// mostAnswerTokens ends answers that go on without end.
const mostAnswerTokens = 200

// AskVotes asks each question several times.
func AskVotes(ctx context.Context, o VotesOptions) (*VotesReport, error) {
	e, err := llmrun.Open(o.Path, llmrun.Options{FS: o.FS, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	v := &votes{engine: e, o: &o, report: &VotesReport{
		Model: path.Base(o.Path), Machine: bench.ThisMachine(), Samples: o.Samples, Temperature: o.Temperature, Seed: o.Seed,
	}}
	notes := o.withActions()
	for _, n := range notes {
		v.total += len(n.Questions)
	}
	for _, n := range notes {
		if err := v.ask(ctx, &n); err != nil {
			return nil, err
		}
	}
	r := v.report
	r.Questions, r.Mean = len(v.overOne), r.Mean/float64(o.Samples)
	r.TokensPerPass = float64(v.tokens) / float64(max(1, v.passes))
	r.OverOne, r.OverMean = meanInterval(v.overOne), meanInterval(v.overMean)
	return r, nil
}

// withActions returns the notes, and copies with more action items and questions about those.
func (o *VotesOptions) withActions() (notes []VoteNote) {
	random := rand.New(rand.NewPCG(o.Seed, 0))
	m := newFactMaker(random)
	for pass := range o.Copies {
		for _, n := range o.Notes {
			if mostActions()-m.actions < o.Actions { // all are in use: shuffle them again
				m = newFactMaker(random)
			}
			if pass == 0 {
				notes = append(notes, n)
			}
			notes = append(notes, n.withActions(m, o.Actions))
		}
	}
	return notes
}

// withActions returns a copy of a note with more action items, and the questions about those.
func (n *VoteNote) withActions(m *factMaker, actions int) VoteNote {
	more := VoteNote{Text: n.Text}
	for range actions {
		when, due := m.action()
		more.Text += "\n" + when.statement
		for _, f := range []fact{when, due} {
			question, _, _ := strings.Cut(strings.TrimSpace(f.question), "<|im_end|>")
			more.Questions = append(more.Questions, VoteQuestion{question, f.want})
		}
	}
	return more
}

// votes is the state of one AskVotes.
type votes struct {
	engine         *llmrun.Engine
	o              *VotesOptions
	report         *VotesReport
	overOne        []float64 // of each question: right by majority, minus right by the first sample
	overMean       []float64 // minus the fraction of samples that are right
	total          int
	tokens, passes int
}

// ask asks all questions about a note. Their prompts begin with the note, which the session prefills once.
func (v *votes) ask(ctx context.Context, n *VoteNote) error {
	s, err := v.engine.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	for _, q := range n.Questions {
		all, err := v.answers(ctx, s, n.Text+"\n\n"+q.Question)
		if err != nil {
			return err
		}
		v.count(all, q.Want)
		if v.o.Running != nil {
			v.o.Running(int64(len(v.overOne)), int64(v.total))
		}
	}
	return nil
}

func (v *votes) answers(ctx context.Context, s *llmrun.Session, prompt string) (all []*llmrun.Candidate, err error) {
	o := llmrun.CandidateOptions{N: v.o.Samples}
	seed := v.o.Seed + uint64(len(v.overOne)) // of this question
	o.MaxTokens, o.Sampling.Temperature, o.Sampling.Seed = mostAnswerTokens, float32(v.o.Temperature), &seed
	p := llmrun.Prompt{Messages: []llmrun.Message{{Role: "user", Content: prompt}}}
	for c, err := range s.Candidates(ctx, p, o) {
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	v.tokens, v.passes = v.tokens+s.Stats().GeneratedTokens, v.passes+s.Stats().Passes
	return all, nil
}

// count compares the answers to one question with the right one.
func (v *votes) count(all []*llmrun.Candidate, want string) {
	right := func(c *llmrun.Candidate) int {
		if strings.TrimSpace(c.Text) == want {
			return 1
		}
		return 0
	}
	winner, _ := llmrun.Vote(all, func(text string) (string, bool) { return strings.TrimSpace(text), true })
	r, mean := v.report, 0.0
	for _, c := range all {
		mean += float64(right(c))
	}
	r.Mean += mean
	r.One += right(all[0])
	r.Vote += right(winner)
	r.Best += right(llmrun.Best(all))
	v.overOne = append(v.overOne, float64(right(winner)-right(all[0])))
	v.overMean = append(v.overMean, float64(right(winner))-mean/float64(len(all)))
}

// meanInterval returns the mean of values and the bounds of its 95 per cent bootstrap interval.
func meanInterval(values []float64) (g VoteGain) {
	const resamples = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, resamples)
	for i := range means {
		for range values {
			means[i] += values[random.IntN(len(values))] / float64(len(values))
		}
	}
	slices.Sort(means)
	for _, x := range values {
		g.Mean += x / float64(len(values))
	}
	g.Low, g.High = means[resamples/40], means[resamples-1-resamples/40]
	return g
}

// WriteTable writes the report as a table in Markdown.
func (r *VotesReport) WriteTable(w io.Writer) {
	share := func(n float64) string { return fmt.Sprintf("%.1f %%", 100*n/float64(r.Questions)) }
	fmt.Fprintf(w, "%s, %d questions, temperature %v, seed %d, %.1f tokens per pass\n\n", r.Model, r.Questions, r.Temperature, r.Seed, r.TokensPerPass)
	fmt.Fprintf(w, "| answer | right |\n|---|---:|\n")
	fmt.Fprintf(w, "| the first sample | %s |\n| a sample, on average | %s |\n", share(float64(r.One)), share(r.Mean))
	fmt.Fprintf(w, "| the likeliest of %d | %s |\n| majority of %d | %s |\n\n", r.Samples, share(float64(r.Best)), r.Samples, share(float64(r.Vote)))
	for _, g := range []struct {
		than string
		VoteGain
	}{{"the first sample", r.OverOne}, {"a sample on average", r.OverMean}} {
		fmt.Fprintf(w, "Majority minus %s, in pairs: %+.1f points, 95 %% interval %+.1f to %+.1f.\n", g.than, 100*g.Mean, 100*g.Low, 100*g.High)
	}
}
