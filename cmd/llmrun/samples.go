package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// sampleFlags generate several answers and choose one.
type sampleFlags struct {
	count  int // 0: one answer, without a choice
	scorer *scorer
	vote   func(text string) (answer string, ok bool) // nil: the greatest score wins
	reward llmrun.RewardOptions
	beam   int // 0: no beam search
	expand int
	step   string
}

func (c *sampleFlags) add(f *cli.FlagSet) {
	f.Group("Several answers")
	f.Count(&c.count, "samples", "N", "generate N answers and print one of them; they share the prompt and every pass over the weights; answer i has a seed of its own, derived from --seed", 1, 256)
	c.addReward(f)
	f.Count(&c.beam, "beam", "W", "search an answer step by step: keep the W beginnings of answers with the greatest score (see --best-of), and continue each by several next steps; continuations share the prompt, their beginnings and every pass over the weights", 1, 64)
	f.Count(&c.expand, "expand", "E", "with --beam: continue each beginning E times; the first step is tried W times E times; default: 4", 1, 64)
	f.Value("step", "TEXT", `what separates the steps of an answer, in which \n is a line break; default: \n\n`, c.setStep)
	f.OptionalValue("vote", "REGEX|json:FIELD", "print an answer that the majority agrees with: in the text that REGEX, or its first group, matched last; in the field of a JSON object; without a value, in the whole text; the score decides between equals", c.setVote)
}

// addReward declares the flags that name a reward model.
func (c *sampleFlags) addReward(f *cli.FlagSet) {
	f.Value("best-of", "HOW", "print the answer with the greatest score: logprob is the mean logarithm of the probabilities of its tokens; command:CMD runs CMD in the shell with the answer as standard input, and takes the number that it prints, or without one 1 if it succeeds and 0 if it fails; an answer for which it takes more than 10 minutes loses; reward:MODEL is the score of a reward model, which stays in memory: one for sequence classification, one of TRL with a value head, or a GGUF file with rank pooling; default: logprob", c.setScorer)
	f.Value("reward-marker", "TOKEN[,GOOD,BAD]", "with --best-of reward: a process reward model, which scores each step of an answer at a TOKEN that is inserted behind it; without a head, by the probability of the token GOOD against BAD (+ and -); the least score of a step is that of the answer", c.setMarker)
}

func (c *sampleFlags) setVote(s string) (err error) {
	c.vote, err = parseVote(s)
	return err
}

func (c *sampleFlags) setScorer(s string) (err error) {
	if c.scorer, err = parseScorer(s); c.scorer != nil {
		c.reward.Model = c.scorer.reward
	}
	return err
}

func (c *sampleFlags) setMarker(s string) error {
	parts := strings.Split(s, ",")
	if len(parts) != 1 && len(parts) != 3 || slices.Contains(parts, "") {
		return fmt.Errorf("must be a token, or three with commas between them, not %q", s)
	}
	c.reward.Marker = parts[0]
	if len(parts) > 1 {
		c.reward.Good, c.reward.Bad = parts[1], parts[2]
	}
	return nil
}

func (c *sampleFlags) setStep(s string) error {
	if c.step = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(s); s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// check refuses flags that contradict each other.
func (c *sampleFlags) check() error {
	switch {
	case c.beam > 0 && (c.count > 0 || c.vote != nil):
		return cli.Usagef("--beam is another search: leave out --samples and --vote")
	case c.beam == 0 && c.expand > 0:
		return cli.Usagef("--expand continues beams: give --beam W")
	case c.beam*c.continuations() > 256:
		return cli.Usagef("--beam times --expand is %d; at most 256 answers are continued at the same time", c.beam*c.continuations())
	case c.count == 0 && c.beam == 0 && (c.scorer != nil || c.vote != nil):
		return cli.Usagef("--best-of and --vote choose between several answers: give --samples N")
	}
	if err := c.checkReward(); err != nil {
		return err
	}
	if c.reward.Marker == "" && c.beam == 0 && c.step != "" {
		return cli.Usagef("--step separates the steps of --beam or --reward-marker: give one of them")
	}
	if c.reward.Marker != "" {
		c.reward.Step = c.step
	}
	return nil
}

// checkReward refuses a marker without a reward model.
func (c *sampleFlags) checkReward() error {
	if c.reward.Model == "" && c.reward.Marker != "" {
		return cli.Usagef("--reward-marker is for a reward model: give --best-of reward:MODEL")
	}
	return nil
}

// candidateReport is a candidate in the JSON object.
type candidateReport struct {
	Text            string            `json:"text"`
	IDs             []int32           `json:"ids"`
	Score           float64           `json:"score"`
	Steps           []float64         `json:"steps,omitempty"`  // scores of its steps
	LogProb         float64           `json:"logprob"`          // mean of its tokens
	Answer          *string           `json:"answer,omitempty"` // what it votes for
	GeneratedTokens int               `json:"generated_tokens"`
	StopReason      llmrun.StopReason `json:"stop_reason"`
	Seed            *uint64           `json:"seed,omitempty"` // none for greedy decoding

	LogProbs cli.JSONList `json:"logprobs,omitzero"` // with --logprobs, of tokenReport
}

// choice is the result of a choice between candidates.
type choice struct {
	candidates []*llmrun.Candidate
	rewards    map[*llmrun.Candidate]llmrun.Reward  // nil without a reward model
	logProbs   func(*llmrun.Candidate) cli.JSONList // nil: they are not reported
	search     searchReport                         // of a beam search
	chosen     *llmrun.Candidate
	why        string
}

// generateSamples generates the candidates, prints the chosen one and saves a named session.
func (r *runFlags) generateSamples(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt, options llmrun.GenerateOptions, progress *promptProgress) error {
	if engine.Tokenizer() == nil && (r.samples.vote != nil || r.samples.scorer != nil) {
		return needTokenizer(engine)
	}
	if options.Sampling.Temperature == 0 && r.samples.count != 1 {
		s.Note("all answers are the same at temperature 0: give a --temp, such as 0.8")
	}
	if r.samples.scorer != nil {
		r.samples.scorer.note = s.Note
	}
	c, err := r.collectSamples(ctx, engine, session, prompt, options)
	progress.finish()
	stopped := cli.Interruption(ctx, err)
	if cli.WasStopped(stopped) && len(c.candidates) > 0 {
		s.Note(fmt.Sprintf("interrupted: %d of %d answers are complete, and one of them is printed", len(c.candidates), r.samples.count))
	} else if err = stopped; err != nil {
		if cli.WasStopped(err) {
			s.Note("interrupted before an answer was complete")
			unsaved := r.save(session)
			r.noteInterrupted(s, progress, session.Stats(), unsaved)
			err = errors.Join(err, unsaved)
		}
		if isFull(err, session) {
			err = fmt.Errorf("%w; %s", err, r.model.contextFullMessage(engine, session, options.WholePrompt, err))
		}
		return err
	}
	if !r.json {
		s.Out.ModelText(c.chosen.Text)
		if engine.Tokenizer() == nil {
			fmt.Fprint(s.Out, formatIDs(c.chosen.IDs))
		}
	}
	s.Out.EndLine()
	stats := c.stats(session)
	unsaved := errors.Join(stopped, session.Flush())
	if r.model.session != "" && stopped == nil {
		unsaved = errors.Join(unsaved, session.Choose(ctx, c.chosen), session.Save(""))
	}
	if !r.quiet {
		fmt.Fprintf(s.Err, "%s; %d tokens in %d passes\n", c.why, stats.GeneratedTokens, stats.Passes)
	}
	got := answer{ids: c.chosen.IDs}
	got.Add(&llmrun.Piece{Text: c.chosen.Text})
	return errors.Join(r.report(s, &got, engine, stats, options.Sampling.Seed, r.samples.addTo(c)), s.Out.Failure(), unsaved)
}

// collectSamples generates the candidates and chooses one.
func (r *runFlags) collectSamples(ctx context.Context, engine *llmrun.Engine, session *llmrun.Session, prompt runPrompt, options llmrun.GenerateOptions) (*choice, error) {
	c := &choice{}
	if r.logProbs != nil {
		c.logProbs = func(k *llmrun.Candidate) cli.JSONList { return candidateTokens(engine, k) }
	}
	p, err := r.libraryPrompt(engine, prompt)
	if err != nil {
		return c, err
	}
	o := llmrun.CandidateOptions{GenerateOptions: options, N: r.samples.count}
	switch scorer := r.samples.scorer; {
	case scorer == nil:
	case scorer.reward != "":
		c.rewards = map[*llmrun.Candidate]llmrun.Reward{}
		o.Score = c.rewardScore(engine, p)
	default:
		o.Score = scorer.score
	}
	var failed error
	all := session.Candidates(ctx, p, o)
	if r.samples.beam > 0 {
		all = session.Beams(ctx, p, r.samples.beams(c, &o, r.json))
	}
	for k, err := range all {
		if failed = err; err == nil {
			c.candidates = append(c.candidates, k)
		}
	}
	if len(c.candidates) > 0 {
		r.samples.decide(c)
	}
	return c, failed
}

// rewardScore returns a function that scores a candidate with the reward model.
func (c *choice) rewardScore(engine *llmrun.Engine, p llmrun.Prompt) func(context.Context, *llmrun.Candidate) (float64, error) {
	return func(ctx context.Context, k *llmrun.Candidate) (float64, error) {
		got, err := engine.Reward(ctx, p, k.Text)
		c.rewards[k] = got
		return got.Score, err
	}
}

// decide takes a candidate and says why.
func (c *sampleFlags) decide(of *choice) {
	n, votes := len(of.candidates), 0
	if c.vote != nil {
		of.chosen, votes = llmrun.Vote(of.candidates, c.vote)
	}
	best := llmrun.Best(of.candidates)
	switch {
	case c.beam > 0:
		of.chosen = best
		of.why = fmt.Sprintf("the best of %d beams after %d steps: %s %.4g", n, of.search.steps, c.scorer.name(), best.Score)
	case votes > 0:
		voted, _ := c.vote(of.chosen.Text)
		of.why = fmt.Sprintf("answer %d of %d: %d of %d answers agree with %q", of.chosen.Index+1, n, votes, n, voted)
	case c.vote != nil:
		of.chosen = best
		of.why = fmt.Sprintf("answer %d of %d: no answer has what --vote looks for; it has the greatest %s, %.4g", best.Index+1, n, c.scorer.name(), best.Score)
	default:
		of.chosen = best
		of.why = fmt.Sprintf("answer %d of %d: the greatest %s, %.4g", best.Index+1, n, c.scorer.name(), best.Score)
	}
}

// stats returns the figures of all candidates, with the end of the chosen one.
func (c *choice) stats(session *llmrun.Session) llmrun.Stats {
	stats := session.Stats()
	stats.StopReason = c.chosen.Stats.StopReason
	return stats
}

// addTo returns a function that adds the candidates to a report.
func (c *sampleFlags) addTo(of *choice) func(*runReport) {
	return func(report *runReport) {
		chosen := slices.Index(of.candidates, of.chosen)
		report.Chosen, report.Why, report.Steps, report.StepsLeftOut = &chosen, of.why, of.search.rounds, of.search.leftOut
		for _, k := range of.candidates {
			each := candidateReport{
				Text: k.Text, IDs: slices.Concat([]int32{}, k.IDs), Score: finite(k.Score), LogProb: finite(k.MeanLogProb()),
				GeneratedTokens: k.Stats.GeneratedTokens, StopReason: k.Stats.StopReason,
			}
			each.Steps = of.rewards[k].Steps
			if of.logProbs != nil {
				each.LogProbs = of.logProbs(k)
			}
			if report.Seed != nil {
				each.Seed = &k.Stats.Seed
			}
			if c.vote != nil {
				if voted, ok := c.vote(k.Text); ok {
					each.Answer = &voted
				}
			}
			report.Candidates = append(report.Candidates, each)
		}
	}
}

// candidateTokens describes the tokens of a candidate.
func candidateTokens(engine *llmrun.Engine, k *llmrun.Candidate) cli.JSONList {
	return func(yield func(any) bool) {
		decoder := engine.Tokenizer().NewDecoder()
		for i, id := range k.IDs {
			p := llmrun.Piece{ID: id, LogProb: k.LogProbs[i]}
			p.Text, _ = decoder.Next(id) // as in tokenText
			if i < len(k.Top) {
				p.Top = k.Top[i]
			}
			if !yield(newTokenReport(engine, &p)) {
				return
			}
		}
	}
}

// continuations returns how many times a beam search continues each beginning.
func (c *sampleFlags) continuations() int { return cmp.Or(c.expand, 4) }

// several reports whether several answers are generated.
func (c *sampleFlags) several() bool { return c.count > 0 || c.beam > 0 }

// oneLine joins the words of a text with single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
