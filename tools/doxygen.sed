# Makes the plain comments of a header those that Doxygen reads. Nothing in them
# is a command or a tag of Doxygen's; what is in backticks is code.

# A whole line.
/^ *\/\/ ?/ {
  s/[\\@<>#&%]/\\&/g
  s/`([^`]+)`/<tt>\1<\/tt>/g
  s/^( *)\/\/ ?/\1\/\/\/ /
}
# Behind a member or a value.
s/^([^"\/]*[;,{})a-z0-9]) +\/\/ /\1  \/\/\/< /
# Before the namespace they are about the file.
/^namespace sluice/,$ b
0,/^\/\/\/ / s/^\/\/\/ /\/\/\/ @file\n\/\/\/ /
