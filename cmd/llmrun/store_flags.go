package main

import (
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
)

// storeFlags are the flags of commands that list, check and delete the contents of the cache
// directory.
type storeFlags struct {
	cache cacheFlags
	json  bool
}

func (c *storeFlags) add(f *cli.FlagSet) {
	f.Group("Cache")
	f.Text(&c.cache.dir, "cache-dir", "DIR", "the directory; default: llmrun in the user's cache directory")
	f.Setting("cache-dir")
	f.Group("Output")
	f.Toggle(&c.json, "json", "print one JSON object")
}

// noteUnreadable reports files that the command leaves out because of their key.
func (c *storeFlags) noteUnreadable(s *cli.Streams, dir string) error {
	text, err := c.cache.sessions(dir).Unreadable()
	if text != "" {
		s.Note(text)
	}
	return err
}

// freed is the JSON object of commands that delete.
type freed struct {
	Freed int64 `json:"freed"` // bytes
}

// A verb is an action of such a command. It takes from least to most names.
type verb struct {
	name        string
	least, most int
	run         func(s *cli.Streams, dir string, names []string) error
}

// anyNumber is verb.most without a limit.
const anyNumber = math.MaxInt

// dispatch returns the action that runs the verb of the first argument; the first verb runs
// without arguments. what describes a name in error messages.
func (c *storeFlags) dispatch(what string, verbs ...verb) cli.Action {
	return func(_ context.Context, s *cli.Streams, args []string) error {
		dir, err := c.cache.directory()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return verbs[0].run(s, dir, nil)
		}
		var known []string
		for _, v := range verbs {
			if v.name == args[0] {
				return v.check(s, dir, what, args[1:])
			}
			known = append(known, v.name)
		}
		return cli.Usagef("there is no action %q: give %s", args[0], cli.Either(known))
	}
}

// check runs a verb after checking the number of names.
func (v *verb) check(s *cli.Streams, dir, what string, names []string) error {
	switch {
	case len(names) < v.least:
		return cli.Usagef("%s needs the name of %s", v.name, what)
	case len(names) > v.most:
		return cli.Usagef("unexpected argument %q", names[v.most])
	}
	return v.run(s, dir, names)
}

// countOf formats a number of things: 1 pack, 2 packs.
func countOf(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
