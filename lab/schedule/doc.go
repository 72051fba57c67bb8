// Package schedule orders the chunks of a prompt on two processors, counts the static graphs that
// they need, and places graphs on a processor with a small address space.
package schedule
