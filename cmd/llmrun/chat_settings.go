package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/cli"
)

// open loads the model and opens the session.
func (c *conversation) open(ctx context.Context) error {
	engine, err := c.model.open(ctx, c.s)
	if err != nil {
		return err
	}
	c.engine = engine
	if err = needTokenizer(engine); err == nil {
		c.session, err = c.model.openSession(c.s, engine, true)
	}
	if err == nil {
		err = c.apply(c.settings)
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// close closes the session and the model.
func (c *conversation) close() (err error) {
	if c.session != nil {
		err = c.session.Close()
	}
	if c.engine != nil {
		err = errors.Join(err, c.engine.Close())
	}
	c.session, c.engine = nil, nil
	return err
}

// apply makes the next answers follow the settings. An error changes nothing.
func (c *conversation) apply(settings *generationFlags) error {
	options, err := settings.options(c.engine)
	if err == nil {
		err = settings.checkOverflow()
	}
	if err != nil {
		return err
	}
	noteSlides(c.s, &options)
	c.settings, c.options = settings, options
	return nil
}

// set changes a setting, or lists them.
func (c *conversation) set(_ context.Context, argument string) error {
	changed := *c.settings
	changed.bias, changed.stop = maps.Clone(changed.bias), slices.Clip(changed.stop)
	flags := cli.NewFlagSet()
	changed.add(flags)
	name, value, _ := strings.Cut(argument, " ")
	name, value = strings.TrimLeft(name, "-"), strings.TrimSpace(value)
	var names []string
	flags.Registry.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "h") { // help
			names = append(names, f.Name)
		}
	})
	switch {
	case name == "":
		c.note("/set NAME VALUE sets %s. llmrun chat --help-all explains them.", cli.All(names))
		return nil
	case flags.Registry.Lookup(name) == nil:
		near := ""
		if ours := cli.ForeignFlags[name]; ours != "" && flags.Registry.Lookup(ours) != nil {
			near = fmt.Sprintf("; here it is %s", ours)
		} else if ours = cli.Nearest(name, names); ours != "" {
			near = fmt.Sprintf("; did you mean %s?", ours)
		}
		return fmt.Errorf("/set: there is no setting %q%s", name, near)
	case value == "":
		return fmt.Errorf("/set: %s needs a value", name)
	}
	if _, err := flags.Parse([]string{"--" + name + "=" + value}); err != nil {
		return fmt.Errorf("/set: %w", err)
	}
	if err := c.apply(&changed); err != nil {
		return fmt.Errorf("/set: %w", err)
	}
	c.note("%s is %s.", name, value)
	return nil
}

// file reads a text for the next message.
func (c *conversation) file(_ context.Context, name string) error {
	switch name {
	case "":
		return errors.New("/file needs the name of a file")
	case "-":
		c.attached = ""
		c.note("What was read is forgotten.")
		return nil
	}
	prompt := promptFlags{ram: &c.model.ram}
	text, err := prompt.readFile(c.s, name, c.attached)
	if err == nil && strings.TrimSpace(text) == "" {
		err = fmt.Errorf("-f: %s has no text", name)
	}
	if err != nil {
		return fmt.Errorf("/file: %s", strings.TrimPrefix(err.Error(), "-f: "))
	}
	if c.attached != "" {
		c.attached += "\n\n"
	}
	c.attached += fmt.Sprintf("%s:\n\n%s", name, trimLineEnd(text))
	if int64(len(c.attached)) > cli.MaxInput {
		c.attached = ""
		return fmt.Errorf("/file: %w", cli.TooMuch("all files together"))
	}
	c.note("%s (%s) comes before your next message.", cli.VisibleLine(name), cli.FormatBytes(int64(len(text))))
	return nil
}

// undo removes the last message of the user, and what follows it.
func (c *conversation) undo(context.Context, string) error {
	for last := len(c.messages) - 1; last >= 0; last-- {
		if c.messages[last].Role != "user" {
			continue
		}
		const shown = 40
		text := []rune(cli.VisibleLine(c.messages[last].Content))
		if len(text) > shown {
			text = append(text[:shown], '…')
		}
		c.messages = c.messages[:last:last]
		c.note("Removed %q and its answer.", string(text))
		c.noteFlash()
		return nil
	}
	return errors.New("/undo: there is no message yet")
}

// changeModel goes on with another model, which reads the conversation with the next message. If it cannot be opened, the
// one before is opened again.
func (c *conversation) changeModel(ctx context.Context, name string) (err error) {
	switch {
	case name == "":
		c.greet()
		return nil
	case c.named:
		return fmt.Errorf("/model: session %s belongs to its model: leave, and start a chat without --session", c.model.session)
	}
	if _, err := findModel("/model", name); err != nil {
		return err
	}
	ctx, end := c.signals.interruptible(ctx)
	defer func() { err = end(err) }()
	before := c.model.path
	if err := c.close(); err != nil { // two models would need the memory of both
		return err
	}
	c.model.path = name
	if err = c.open(ctx); err == nil {
		c.greet()
		return nil
	}
	c.model.path = before
	if again := c.open(context.WithoutCancel(ctx)); again != nil {
		return errors.Join(err, again) // which ends the chat
	}
	return fmt.Errorf("/model: %w; the model before goes on", err)
}
