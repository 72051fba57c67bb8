package llmrun

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/llmrun/llmrun/text/constrain"
)

// requiredCalls are calls of tools of which an answer, or the arguments of a call, must be one.
type requiredCalls struct {
	calls []constrain.Call
	// compiled is what compile has returned before. The answers that follow soon use it, and nothing else holds its memory.
	compiled weak.Pointer[constrain.Grammar]
}

func (r *requiredCalls) compile(k constrain.Compiler) (g *constrain.Grammar, err error) {
	if g = r.compiled.Value(); g != nil {
		return g, nil
	}
	return k.Calls(r.calls)
}

// heldCalls remembers the calls of the last tools. A request renders its conversation more than once, and the next ones have the same tools:
// they then share what is compiled, and a matcher.
type heldCalls struct {
	mu   sync.Mutex
	last []heldTools // the last used ones are last
}

// heldTools are tools with what their calls are held to.
type heldTools struct {
	key   [sha256.Size]byte
	calls *requiredCalls // nil: the calls are not held
}

// keptTools is how many lists of tools heldCalls remembers: as many as an engine keeps matchers.
const keptTools = keptMatchers

// get returns the calls of tools, which make makes if they are new. how names what make does with them. Errors are not remembered.
func (h *heldCalls) get(how string, tools []Tool, named bool, make func() (*requiredCalls, error)) (*requiredCalls, error) {
	text, _ := json.Marshal([]any{how, tools, strictOnes(tools), named}) // parameters that are no JSON give no text, and make refuses them
	key := sha256.Sum256(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.last, func(t heldTools) bool { return t.key == key })
	if i >= 0 && text != nil {
		found := h.last[i]
		h.last = append(slices.Delete(h.last, i, i+1), found)
		return found.calls, nil
	}
	calls, err := make()
	if err != nil || text == nil {
		return calls, err
	}
	if len(h.last) == keptTools {
		h.last = slices.Delete(h.last, 0, 1)
	}
	h.last = append(h.last, heldTools{key, calls})
	return calls, nil
}

func strictOnes(tools []Tool) (strict []bool) {
	for i := range tools {
		strict = append(strict, tools[i].Strict)
	}
	return strict
}

// holdCalls sets what a required call is held to, if the model writes its arguments as JSON: to the schema of its tool, or to any object if that
// is not supported. If no call is required, it sets what those of strict tools are held to. It is an error if a strict tool cannot be held to its
// schema.
func (c *chatFormat) holdCalls(o *ChatOptions) (err error) {
	if !o.requires() && !o.strict() || o.NoGenerationPrompt || c.template == nil {
		return nil
	}
	if err := o.validateTools(); err != nil {
		return err
	}
	if !o.requires() {
		o.decided, err = c.held.get("decided", o.Tools, false, func() (*requiredCalls, error) { return c.decidedCalls(o.Tools) })
		return err
	}
	tools, name := o.Tools, o.requiredTool()
	if i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name }); i >= 0 {
		tools = tools[i : i+1]
	}
	o.held, err = c.held.get("required", tools, name == "", func() (*requiredCalls, error) { return c.callsOf(tools, name == "") })
	return err
}

// callsOf returns the calls of tools as the model writes them, nil if they cannot be held to schemas. named tells that their names are
// still to be written.
func (c *chatFormat) callsOf(tools []Tool, named bool) (*requiredCalls, error) {
	strict := slices.IndexFunc(tools, func(t Tool) bool { return t.Strict })
	before, lead, tail, ok := c.jsonCalls()
	if !ok {
		if strict >= 0 {
			return nil, formNotHeld(&tools[strict])
		}
		return nil, nil
	}
	r := &requiredCalls{}
	for i := range tools {
		// Without parameters there are no arguments. A request would stay in memory as a whole with a part of it.
		call := constrain.Call{Name: tools[i].Name, Schema: bytes.Clone(tools[i].Parameters), After: tail}
		if named {
			call.Before = before + call.Name + lead
		}
		r.calls = append(r.calls, call)
	}
	k, done := c.newCompiler()
	defer done()
	g, err := r.compile(k)
	if err != nil && !errors.Is(err, ErrBudget) {
		if err = r.loosen(k, tools); err == nil {
			g, err = r.compile(k)
		}
	}
	switch {
	case err == nil:
		r.compiled = weak.Make(g)
		return r, nil
	case strict >= 0, errors.Is(err, ErrBudget):
		return nil, constraintError(err)
	}
	return nil, nil
}

// newCompiler returns a compiler, and the function that releases its memory.
func (c *chatFormat) newCompiler() (k constrain.Compiler, done func()) {
	if c.compiler == nil { // no engine is open
		return k, func() {}
	}
	return c.compiler()
}

func formNotHeld(t *Tool) error {
	return fmt.Errorf("%w: the tool %s is strict, but this model writes calls in a form that cannot be held to a schema; without strict the tool can be used", ErrOptions, t.Name)
}

// anyArguments is the schema of arguments whose own schema is not supported.
const anyArguments = `{"type":"object"}`

// loosen lets the arguments of tools whose schema is not supported be any object. It is an error if one of them is strict.
func (r *requiredCalls) loosen(k constrain.Compiler, tools []Tool) error {
	for i := range r.calls {
		_, err := k.Calls(r.calls[i : i+1])
		if err != nil && (tools[i].Strict || errors.Is(err, ErrBudget)) {
			return err
		}
		if err != nil {
			r.calls[i].Schema = []byte(anyArguments)
		}
	}
	return nil
}
