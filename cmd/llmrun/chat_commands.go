package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// A slashCommand is a command of the chat, such as /help.
type slashCommand struct {
	name     string
	argument string // as /help shows it; "" when there is none
	summary  string
	do       func(c *conversation, ctx context.Context, argument string) error
}

// slashCommands returns the commands in the order of /help.
func slashCommands() []slashCommand {
	return []slashCommand{
		{"help", "", "print this list", (*conversation).help},
		{"file", "PATH", "read a file: its text comes before your next message; - forgets what was read", (*conversation).file},
		{"retry", "", "generate another answer to the last message", (*conversation).retry},
		{"undo", "", "remove the last message and its answer", (*conversation).undo},
		{"reset", "", "clear the conversation, also in the session on flash; the system message stays", (*conversation).reset},
		{"system", "TEXT", "set the system message; without TEXT, remove it", (*conversation).system},
		{"set", "NAME VALUE", "set what a flag of that name sets, such as /set temp 0; without NAME, list what can be set", (*conversation).set},
		{"model", "NAME", "go on with another model; without NAME, describe this one", (*conversation).changeModel},
		{"adapters", "NAME", "use adapters of --lora NAME=PATH: one or more, NAME:0.5 for half of it, - for none; without NAME, list them", (*conversation).adapters},
		{"save", "FILE", "save the conversation, as JSON if FILE ends in .json, else as text", (*conversation).save},
		{"load", "FILE", "load a conversation that was saved as JSON", (*conversation).load},
		{"stats", "", "print the timings of the last answer and the use of the context", (*conversation).stats},
		{"exit", "", "leave; so does Ctrl-D", func(*conversation, context.Context, string) error { return errExit }},
	}
}

// runSlashCommand runs the command of a line that begins with a slash.
func (c *conversation) runSlashCommand(ctx context.Context, line string) error {
	name, argument, _ := strings.Cut(line[1:], " ")
	argument = strings.TrimSpace(argument)
	if name == "bye" || name == "quit" { // names that other programs use
		return errExit
	}
	var names []string
	for _, command := range slashCommands() {
		if command.name == name {
			return command.do(c, ctx, argument)
		}
		names = append(names, command.name)
	}
	suggestion := ""
	if near := cli.Nearest(name, names); near != "" {
		suggestion = fmt.Sprintf("; did you mean /%s?", near)
	}
	return fmt.Errorf("there is no command /%s%s (/help lists them; a message that begins with / needs a space before it)", name, suggestion)
}

func (c *conversation) help(context.Context, string) error {
	for _, command := range slashCommands() {
		const column = 20 // of what the commands do
		c.s.SayRow("  /"+strings.TrimSpace(command.name+" "+command.argument), command.summary, column)
	}
	c.note("A line that ends with \\ continues in the next line; \"\"\" begins and ends a block of lines.")
	return nil
}

// retry answers the last message again. The old answer stays if the new one is empty.
func (c *conversation) retry(ctx context.Context, _ string) error {
	last := len(c.messages) - 1
	if last < 1 || c.messages[last].Role != "assistant" {
		return errors.New("/retry: there is no answer yet")
	}
	old := c.messages[last]
	c.messages = c.messages[:last]
	err := c.answer(ctx)
	if len(c.messages) == last {
		c.messages = append(c.messages, old)
	}
	return err
}

// reset removes all messages but the system message, also from the saved session.
func (c *conversation) reset(context.Context, string) error {
	system := ""
	if len(c.messages) > 0 && c.messages[0].Role == "system" {
		system = c.messages[0].Content
	}
	c.messages, c.attached = withSystem(nil, system), ""
	if !c.named {
		c.note("The conversation is cleared.")
		return nil
	}
	err := errors.Join(c.session.Reset(), c.session.SetSystem(system))
	if err == nil {
		err = c.session.Save("")
	}
	if err == nil {
		c.note("The conversation is cleared, also in session %s on flash.", c.model.session)
	}
	return err
}

func (c *conversation) system(_ context.Context, text string) error {
	c.setSystem(text)
	if text == "" {
		c.note("The system message is removed.")
	} else {
		c.note("The system message is set.")
	}
	c.noteFlash()
	return nil
}

// adapters chooses the adapters of the session, or lists them.
func (c *conversation) adapters(_ context.Context, list string) error {
	if list != "" {
		if err := c.session.UseAdapters(noDash(strings.Fields(list))...); err != nil {
			return fmt.Errorf("/adapters: %w", err)
		}
	}
	c.note("Adapters: %s; in use: %s.", listOr(c.engine.Adapters()), listOr(c.session.Adapters()))
	return nil
}

// listOr returns names in a line, or says that there are none.
func listOr(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// stats prints the timings of the last answer and the use of the context.
func (c *conversation) stats(context.Context, string) error {
	if c.answers > 0 {
		c.note("%s", formatStats(c.session.Stats(), nil))
	}
	// The last token of a full context is not in it: the session has it, and the model cannot process it.
	c.note("The context holds %d of %d tokens.", min(c.session.Len(), c.session.Limit()), c.session.Limit())
	return nil
}

// save writes the conversation to a file. It replaces only files that this conversation wrote.
func (c *conversation) save(_ context.Context, name string) error {
	if name == "" {
		return errors.New("/save needs the name of a file")
	}
	text, err := c.transcript(strings.EqualFold(filepath.Ext(name), ".json"))
	if err != nil {
		return fmt.Errorf("/save: %w", err)
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) && !c.saved[name] {
		return fmt.Errorf("/save: %s exists: choose another name", name)
	}
	if err := replaceFile(name, text); err != nil {
		return fmt.Errorf("/save: %w", err)
	}
	if c.saved == nil {
		c.saved = make(map[string]bool)
	}
	c.saved[name] = true
	c.note("Saved %d messages in %s.", len(c.messages), name)
	return nil
}

// transcript returns the conversation as JSON or as text to read.
func (c *conversation) transcript(asJSON bool) ([]byte, error) {
	if asJSON {
		text, err := json.MarshalIndent(c.messages, "", "  ")
		return append(text, '\n'), err
	}
	var text strings.Builder
	for _, m := range c.messages {
		fmt.Fprintf(&text, "%s:\n%s\n\n", m.Role, m.Content)
	}
	return []byte(text.String()), nil
}

// replaceFile writes a whole file or leaves the old one, also if the machine loses power.
func replaceFile(name string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".llmrun-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// load replaces the conversation with that of a file. An error leaves the conversation unchanged.
func (c *conversation) load(_ context.Context, name string) error {
	if name == "" {
		return errors.New("/load needs the name of a file")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("/load: %w", err)
	}
	var messages []llmrun.Message
	if err := json.Unmarshal(text, &messages); err != nil {
		return fmt.Errorf("/load: %s is not a conversation that /save wrote as JSON: %w", name, err)
	}
	for i, m := range messages {
		if m.Role == "" {
			return fmt.Errorf("/load: %s: message %d has no role", name, i+1)
		}
	}
	c.messages = messages
	c.note("Loaded %d messages from %s.", len(messages), name)
	c.noteFlash()
	return nil
}

// noteFlash says when a changed conversation replaces the one of the session on flash.
func (c *conversation) noteFlash() {
	if c.named {
		c.note("Session %s on flash changes with the next answer.", c.model.session)
	}
}
