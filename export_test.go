package llmrun

import (
	"context"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/jinja"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// Tests open hundreds of models from directories of their own, whose speeds would each be measured for a second.
// They measure as programs do, but for a tenth of the time and with few weights.
func init() {
	flashTime, roundTime = flashTime/10, roundTime/10
	computeRates = func(budget *tiering.Budget, of rates.Matmul, threads int, bytes int64) (decodeGBs, prefillGops float64, err error) {
		return rates.Compute(budget, of, threads, min(bytes, 1<<20))
	}
}

// LiveHeap measures how much of Go's heap is live.
func LiveHeap() int64 { return liveHeap() }

// SetLiveHeap makes engines find this heap of the program instead of measuring it, until restore is called.
func SetLiveHeap(bytes int64) (restore func()) {
	readHeap = func() int64 { return bytes }
	return func() { readHeap = liveHeap }
}

// SetMemoryLimit makes engines set Go's memory limit with this function, until restore is called.
func SetMemoryLimit(set func(int64) int64) (restore func()) {
	before := setMemoryLimit
	setMemoryLimit = set
	return func() { setMemoryLimit = before }
}

// SetAvailableMemory makes engines find this much available memory, until restore is called.
func SetAvailableMemory(bytes int64) (restore func()) {
	readAvailable = func() int64 { return bytes }
	return func() { readAvailable = tiering.Available }
}

// CheckMemory returns an error that names the memory that the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }

// RespondToProcess compares the bytes that resident returns with the budget.
func (e *Engine) RespondToProcess(resident func() int64, notify func(string)) {
	e.respondToProcess(resident, notify)
}

// Watch starts a watcher that reads the pressure signs below root at each tick.
func (e *Engine) Watch(root fs.FS, ticks <-chan time.Time) { e.watch(root, ticks, func() {}) }

// GrantedFor returns the memory that one step of the conversion of a prompt of so many bytes gets
// without asking for more.
func GrantedFor(bytes int) int64 { return grantedOf(PromptMemory(int64(bytes))) }

// AllBranches makes passes with guesses verify other guesses too, until the end of the test, whether they pay or not.
func AllBranches(t testing.TB) {
	allBranches = true
	t.Cleanup(func() { allBranches = false })
}

// KeptBranches returns in how many passes a branch was right where the first guesses were wrong.
func KeptBranches(e *Engine) int { return int(e.branchesKept.Load()) }

// ReserveCode makes plans reserve so much for the program's code, of which the system decides how much is resident.
func ReserveCode(bytes int64) { codeBytes = func() int64 { return bytes } }

// HarmonyTemplate writes conversations as gpt-oss reads them.
const HarmonyTemplate = harmonyTemplate

// WrittenCalls are parts of templates that write calls as families do, and FunctionaryTemplate is the template of one.
var (
	WrittenCalls        = writtenCalls
	FunctionaryTemplate = functionaryTemplate
)

// ChatBegun is Session.ChatMessages with an answer that has begun with a text already. Its pieces do not have that text.
func ChatBegun(ctx context.Context, s *Session, messages []Message, begun string, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.run(ctx, o, func(o *GenerateOptions) (ids []int32, err error) {
		if ids, o.reading, err = s.engine.encodeChat(messages, o.Chat); err != nil {
			return nil, err
		}
		o.answered, err = s.engine.tok.t.Encode(begun, token.EncodeOptions{AllowSpecial: true})
		return slices.Concat(ids, o.answered), err
	}, nil)
}

// UseTemplate gives a model another chat template.
func UseTemplate(t testing.TB, e *Engine, source string) {
	parsed, err := jinja.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	tok := e.tok.t
	e.chat = &chatFormat{
		source: source, template: parsed, tok: tok, bos: e.chat.bos, eos: e.chat.eos,
		answers: answer.New(source, func(mark string) bool { _, ok := tok.ID(mark); return ok }),
	}
}

// CallBegins returns what the model writes before the arguments of a call of a tool.
func CallBegins(e *Engine, name string) (string, error) {
	begun, rest, err := e.chat.callText()
	before, _, _ := strings.Cut(rest, "{")
	return begun + name + before, err
}

// Ends returns the tokens with which a model ends its answers.
func Ends(e *Engine) []int32 { return e.ends }

// HeldAnswer holds an answer to a grammar. begin begins to compute a mask ahead of the next one, and returns what ends that. next makes the
// next mask.
func HeldAnswer(t testing.TB, e *Engine, grammar string) (begin func() (end func()), next func() error) {
	g := &generation{session: &Session{engine: e}, options: GenerateOptions{MaxTokens: 9}, limit: 100}
	var err error
	if g.sampler, err = sample.New(sample.Params{}, e.model.Spec.Vocab); err == nil {
		g.held, err = e.constrain(&source{kind: "grammar", text: grammar})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.endConstraint)
	h := g.held
	h.calls = true // the answer is held from its first token on
	begin = func() func() {
		h.ahead.Add(1)
		return h.ahead.Done
	}
	return begin, func() error {
		_, _, err := g.allow()
		return err
	}
}
