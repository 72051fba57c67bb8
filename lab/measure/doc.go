// Package measure is what the command's measuring verbs do: it makes models of
// random weights and times a model at work. Unlike the rest of the command it
// reaches below the library, because it asks for what no user of the library
// needs: bytes moved, products computed, and what the machine could do at most.
package measure
