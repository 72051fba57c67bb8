package llmrun

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/jinja"
)

// The levels of thinking.
const (
	ThinkOff    = "off"
	ThinkOn     = "on"
	ThinkLow    = "low"
	ThinkMedium = "medium"
	ThinkHigh   = "high"
)

// thinkLevel is how a prompt asks for a level of thinking: by variables of the template, or by the beginning of the answer.
type thinkLevel struct {
	set   map[string]any
	opens bool // the answer begins with the mark that begins thoughts
	skips bool // the answer begins behind thoughts
	final bool // the answer begins in the channel that the user reads
}

// ThinkingLevels returns the levels of thinking between which the chat template can choose, in the order off, on, low, medium, high.
// It is empty if the model has no such switch.
func (e *Engine) ThinkingLevels() []string { return e.chat.levelNames() }

func (c *chatFormat) levelNames() (names []string) {
	if c.template == nil {
		return nil
	}
	for _, name := range []string{ThinkOff, ThinkOn, ThinkLow, ThinkMedium, ThinkHigh} {
		if _, ok := c.probeThinking()[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// level returns how to ask for a level; "" asks for nothing.
func (c *chatFormat) level(name string) (thinkLevel, error) {
	if name == "" {
		return thinkLevel{}, nil
	}
	level, ok := c.probeThinking()[name]
	switch names := c.levelNames(); {
	case ok:
		return level, nil
	case len(names) == 0:
		return level, fmt.Errorf("%w: the chat template of this model has no switch for thinking", ErrOptions)
	default:
		return level, fmt.Errorf("%w: Thinking is %q; this model can have %s", ErrOptions, name, strings.Join(names, ", "))
	}
}

// These variables of templates switch thinking, or choose how much of it there is.
var (
	thinkSwitches = []string{"enable_thinking", "thinking", "enable_reasoning", "reasoning", "think"}
	thinkEfforts  = []string{"reasoning_effort", "thinking_effort"}
	thinkBudgets  = []string{"thinking_budget"}
)

// probeThinking finds the variables that change what the template renders.
func (c *chatFormat) probeThinking() map[string]thinkLevel {
	p := &c.probed
	p.thinking.Do(func() {
		p.levels = map[string]thinkLevel{}
		render := func(name string, v any) string {
			text, err := renderTools(c.template, jinja.Input{
				Messages: []any{jinja.Message{Role: "user", Content: "x"}}, AddGenerationPrompt: true,
				BOS: c.bos, EOS: c.eos, Extra: map[string]any{name: v},
			})
			if err != nil {
				return ""
			}
			return text
		}
		// differs reports whether two values of a variable give different prompts.
		differs := func(name string, a, b any) bool {
			first, second := render(name, a), render(name, b)
			return first != "" && second != "" && first != second
		}
		for _, name := range thinkSwitches {
			if strings.Contains(c.source, name) && differs(name, true, false) {
				p.levels[ThinkOn], p.levels[ThinkOff] = thinkLevel{set: map[string]any{name: true}}, thinkLevel{set: map[string]any{name: false}}
				break
			}
		}
		for _, name := range thinkEfforts {
			if strings.Contains(c.source, name) && differs(name, ThinkLow, ThinkHigh) {
				c.addEfforts(name, differs)
				break
			}
		}
		for _, name := range thinkBudgets {
			if strings.Contains(c.source, name) && differs(name, 0, 512) {
				c.addBudgets(name)
				break
			}
		}
		c.addMarks()
	})
	return p.levels
}

// addEfforts adds the levels of a variable with names of levels.
func (c *chatFormat) addEfforts(name string, differs func(name string, a, b any) bool) {
	levels := c.probed.levels
	on := levels[ThinkOn].set
	for _, level := range []string{ThinkLow, ThinkMedium, ThinkHigh} {
		set := map[string]any{name: level}
		maps.Copy(set, on)
		levels[level] = thinkLevel{set: set}
	}
	if _, ok := levels[ThinkOn]; ok {
		return
	}
	levels[ThinkOn] = levels[ThinkMedium]
	switch {
	case c.channels != nil:
		levels[ThinkOff] = thinkLevel{set: map[string]any{name: ThinkLow}, final: true}
	case (strings.Contains(c.source, `"none"`) || strings.Contains(c.source, `'none'`)) && differs(name, "none", ThinkHigh):
		levels[ThinkOff] = thinkLevel{set: map[string]any{name: "none"}}
	}
}

// addBudgets adds the levels of a variable that is a number of tokens.
func (c *chatFormat) addBudgets(name string) {
	levels := c.probed.levels
	for level, tokens := range map[string]int{ThinkOff: 0, ThinkLow: 512, ThinkMedium: 2048, ThinkHigh: 8192} {
		levels[level] = thinkLevel{set: map[string]any{name: tokens}}
	}
	if _, ok := levels[ThinkOn]; !ok {
		levels[ThinkOn] = thinkLevel{}
	}
}

// addMarks adds what the marks of thoughts can do where no variable does it.
func (c *chatFormat) addMarks() {
	levels := c.probed.levels
	if !c.answers.Thinks() || c.channels != nil {
		return
	}
	if _, ok := levels[ThinkOff]; !ok {
		levels[ThinkOff] = thinkLevel{skips: true}
	}
	if _, ok := levels[ThinkOn]; !ok {
		levels[ThinkOn] = thinkLevel{opens: true}
	}
}

// variables returns the variables of the template with those of the level.
func (l *thinkLevel) variables(extra map[string]any) map[string]any {
	if len(l.set) == 0 {
		return extra
	}
	all := maps.Clone(l.set)
	maps.Copy(all, extra) // what the caller sets itself is meant
	return all
}

// over returns the variables of the template with those of the level, which win.
func (l *thinkLevel) over(extra map[string]any) map[string]any {
	all := maps.Clone(l.set)
	for name, value := range extra {
		if _, set := all[name]; !set {
			all[name] = value
		}
	}
	return all
}

// begin returns what begins the answer to a prompt.
func (l *thinkLevel) begin(f *answer.Format, prompt string) string {
	if l.final {
		return finalBegin
	}
	if !l.skips && !l.opens {
		return ""
	}
	open, end := f.Thoughts()
	switch opened := f.Opened(prompt); {
	case l.skips && opened != "":
		return "\n" + opened + "\n\n"
	case l.skips:
		return open + "\n\n" + end + "\n\n"
	case l.opens && opened == "":
		return open + "\n"
	}
	return ""
}

// HasThinkingLevel reports whether the chat template can choose a level of thinking.
func (e *Engine) HasThinkingLevel(level string) bool {
	return slices.Contains(e.ThinkingLevels(), level)
}

// HasTools reports whether a conversation with the model can have tools: with every chat template that can be used. See ChatOptions.Tools.
func (e *Engine) HasTools() bool { return e.chat.hasTools() }

func (c *chatFormat) hasTools() bool { return c.template != nil }
