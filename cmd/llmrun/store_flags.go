package main

import (
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
)

// storeFlags are the flags of commands that look after what lies in the cache
// directory.
type storeFlags struct {
	cache cacheFlags
	json  bool
}

func (c *storeFlags) add(f *cli.FlagSet) {
	f.Group("Cache")
	f.Text(&c.cache.dir, "cache-dir", "DIR", "the directory; without it, llmrun in the user's cache directory")
	f.Group("Output")
	f.Toggle(&c.json, "json", "print one JSON object")
}

// freed is what rm and its like print as JSON.
type freed struct {
	Freed int64 `json:"freed"` // bytes
}

// A verb is one of the things that such a command does, with the names of from
// least to most pieces of what it looks after.
type verb struct {
	name        string
	least, most int
	run         func(s *cli.Streams, dir string, names []string) error
}

// anyNumber is the most of a verb that has no limit.
const anyNumber = math.MaxInt

// dispatch returns the action that does what the first argument says, or without
// arguments the first verb. what is a piece as a message calls it.
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
		return cli.Usagef("there is no %q: give %s", args[0], cli.Either(known))
	}
}

// check runs a verb if it has the names that it needs, and no more.
func (v *verb) check(s *cli.Streams, dir, what string, names []string) error {
	switch {
	case len(names) < v.least:
		return cli.Usagef("%s needs the name of %s", v.name, what)
	case len(names) > v.most:
		return cli.Usagef("unexpected argument %q", names[v.most])
	}
	return v.run(s, dir, names)
}

// countOf spells a number of things: 1 pack, 2 packs.
func countOf(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
