// Package devices knows where products can be computed on this machine: on the
// processor and its groups of cores, and on whatever drivers were built in and
// are there.
//
// What needs a driver is behind a build tag, because a program that loads
// libraries is not static any more. A file with that tag fills in the [Provider]
// of its driver; without it, the list says how to get it. Drivers are looked for
// when somebody asks, and one that is missing is a line of the list and no error.
package devices
