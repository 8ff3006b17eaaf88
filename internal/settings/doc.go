// Package settings turns tables of settings into parsed values, error lists and documentation.
//
// One table ([]Setting) per component is the single place that says which keys exist, of which type, with which default and
// range, and what they mean. Parse reads Java-style properties (a map of strings) by a table and reports every mistake at once,
// one line each, so that an operator fixes a file in one go. Values hands the results out by name and type; asking for a name
// that is not in the table is a programmer's error and panics, and Values.Unread lets a test prove that every setting is read.
// Markdown writes the reference from the same tables.
//
// Nothing here touches the environment by itself: Options carries what "env:NAME" and "file:PATH" secrets are read with.
package settings
