// Package schedule decides in which order pieces of a prompt run on several
// processors, which graphs they need, and which operations a processor with
// little address space gets.
package schedule
