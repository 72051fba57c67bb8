package main

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// maxRecent bounds --repeat-last-n; no context is longer.
const maxRecent = 1 << 24

// generationFlags set the sampling of tokens and the end of an answer. The model's own
// generation settings apply to flags that are not given.
type generationFlags struct {
	maxTokens int
	stop      []string
	ignoreEOS bool
	overflow  llmrun.Overflow
	truncate  bool // a slide may also drop tokens of the first prompt
	thinking  thinkingFlags

	temperature      *float32
	topP             *float32
	minP             *float32
	typicalP         *float32
	repeatPenalty    *float32
	presencePenalty  *float32
	frequencyPenalty *float32
	topK             *int
	repeatLastN      *int
	seed             *uint64
	bias             map[int32]float32
}

// add declares the flags, in groups of their own.
func (g *generationFlags) add(f *cli.FlagSet) {
	f.Group("Length")
	f.Count(&g.maxTokens, "n", "N", "at most N new tokens; default: until the model ends the answer or the context is full, see --overflow", 1, math.MaxInt32)
	f.List(&g.stop, "stop", "TEXT", "end the answer before TEXT; may be given several times")
	f.Toggle(&g.ignoreEOS, "ignore-eos", "continue after the model's end-of-text token, and when the answer repeats itself; also give -n")

	g.addOverflow(f)
	g.thinking.add(f)

	f.Group("Sampling (default: the model's own settings)")
	f.OptionalNumber(&g.temperature, "temp", "temperature; 0 is greedy: always the most likely token, without the model's own penalties", 0, 100)
	f.Setting("temp")
	f.OptionalCount(&g.topK, "top-k", "only the N most likely tokens; 0 is all", 0, math.MaxInt32)
	f.OptionalNumber(&g.topP, "top-p", "only the most likely tokens whose probabilities add up to X; 0 or 1 is all", 0, 1)
	f.OptionalNumber(&g.minP, "min-p", "only tokens at least X times as likely as the most likely one; 0 is all", 0, 1)
	f.OptionalNumber(&g.typicalP, "typical", "locally typical sampling: only the most typical tokens whose probabilities add up to X; 0 or 1 is all", 0, 1)
	f.OptionalNumber(&g.repeatPenalty, "repeat-penalty", "divide the logits of recent tokens by X; 1 is off", 0.01, 100)
	f.OptionalCount(&g.repeatLastN, "repeat-last-n", "number of recent tokens that penalties apply to; default: 64", 1, maxRecent)
	f.OptionalNumber(&g.presencePenalty, "presence-penalty", "subtract X from the logits of tokens that occurred", -100, 100)
	f.OptionalNumber(&g.frequencyPenalty, "frequency-penalty", "subtract X from a logit for each time its token occurred", -100, 100)
	f.Value("logit-bias", "ID=X", "add X to the logit of token ID; -Inf forbids the token; may be given several times", g.addBias)
	f.Value("seed", "N", "seed of the random numbers: the same seed gives the same text, with any number of threads; default: a new seed each time", g.setSeed)
}

// addBias parses a value of --logit-bias.
func (g *generationFlags) addBias(s string) error {
	idText, biasText, _ := strings.Cut(s, "=")
	id, idErr := strconv.ParseInt(idText, 10, 32)
	bias, err := strconv.ParseFloat(biasText, 32)
	if idErr != nil || err != nil || id < 0 || math.IsNaN(bias) || math.IsInf(bias, 1) {
		return fmt.Errorf("must be a token id and a number, as in 42=-1.5 or 42=-Inf, not %q", s)
	}
	if g.bias == nil {
		g.bias = make(map[int32]float32)
	}
	g.bias[int32(id)] = float32(bias)
	return nil
}

// setSeed parses the value of --seed.
func (g *generationFlags) setSeed(s string) error {
	seed, err := parseSeed(s)
	if err == nil {
		g.seed = &seed
	}
	return err
}

// parseSeed parses a seed of random numbers.
func parseSeed(s string) (uint64, error) {
	seed, err := strconv.ParseUint(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("must be a whole number from 0 to %d, not %q", uint64(math.MaxUint64), s)
	case err != nil:
		return 0, fmt.Errorf("must be a whole number of at least 0, not %q", s)
	}
	return seed, nil
}

// options returns the library's options: the flags override the model's defaults.
func (g *generationFlags) options(engine *llmrun.Engine) (llmrun.GenerateOptions, error) {
	thinking, err := g.thinking.of(engine)
	if err != nil {
		return llmrun.GenerateOptions{}, err
	}
	sampling := g.sampling(engine.DefaultSampling())
	vocabulary := engine.Info().Vocab
	for id := range sampling.LogitBias {
		if int(id) >= vocabulary {
			return llmrun.GenerateOptions{}, cli.Usagef("--logit-bias: the model has no token %d, only 0 to %d", id, vocabulary-1)
		}
	}
	return llmrun.GenerateOptions{
		MaxTokens: g.maxTokens,
		Sampling:  sampling,
		Stop:      g.stop,
		IgnoreEOS: g.ignoreEOS,
		Overflow:  g.overflow,

		StopRepeats: !g.ignoreEOS,
		Chat:        llmrun.ChatOptions{Thinking: thinking},
	}, nil
}

// sampling overrides the model's defaults with the flags. Greedy decoding ignores the model's
// defaults: its penalties are meant for sampling, and would change the most likely token.
func (g *generationFlags) sampling(defaults llmrun.Sampling) llmrun.Sampling {
	s := defaults
	if g.temperature != nil && *g.temperature == 0 {
		s = llmrun.Sampling{}
	}
	override(&s.Temperature, g.temperature)
	override(&s.TopP, g.topP)
	override(&s.MinP, g.minP)
	override(&s.TypicalP, g.typicalP)
	override(&s.RepeatPenalty, g.repeatPenalty)
	override(&s.PresencePenalty, g.presencePenalty)
	override(&s.FrequencyPenalty, g.frequencyPenalty)
	override(&s.TopK, g.topK)
	override(&s.RepeatLastN, g.repeatLastN)
	s.LogitBias = g.bias
	s.Seed = g.seed
	if s.Seed == nil && s.Temperature > 0 {
		// The seed is chosen here so that it can be printed. It has 32 bits because many JSON
		// parsers keep only 53 bits of a number.
		seed := uint64(rand.Uint32())
		s.Seed = &seed
	}
	return s
}

// override sets target if the flag was given.
func override[T any](target, given *T) {
	if given != nil {
		*target = *given
	}
}

// An answer is the output of a generation so far.
type answer struct {
	llmrun.Answer
	ids    []int32
	tokens *keptTokens // nil without --logprobs
}

// collect appends the pieces of a generation to the answer and passes each piece that has text to
// show. It stops when show fails.
func (a *answer) collect(pieces iter.Seq2[llmrun.Piece, error], show func(*llmrun.Piece) error) error {
	for piece, err := range pieces {
		if err != nil {
			return err
		}
		if piece.ID >= 0 { // the last piece may be buffered text without a token
			a.ids = append(a.ids, piece.ID)
			if err := a.tokens.add(&piece); err != nil {
				return err
			}
		}
		a.Add(&piece)
		if piece.Text == "" {
			continue
		}
		if err := show(&piece); err != nil {
			return err
		}
	}
	return nil
}

// explainEmpty tells why there is no text, if the model only thought.
func (a *answer) explainEmpty(note func(text string)) {
	if a.Text() == "" && len(a.ToolCalls()) == 0 && a.Thinking() != "" {
		note("the answer ended while the model was thinking; --show-thinking and --json print its thoughts, and a greater -n leaves room for an answer")
	}
}

// loopText says that an answer was stopped.
const loopText = "the answer repeats itself and was stopped; --repeat-penalty 1.1 makes that unlikely, and --ignore-eos lets it go on"

// addLogProbs returns a function that adds the probabilities of the tokens to a report, if they were collected.
func (a *answer) addLogProbs(engine *llmrun.Engine) func(*runReport) {
	return func(report *runReport) {
		if a.tokens != nil {
			report.LogProbs = a.tokens.report(engine)
		}
	}
}
