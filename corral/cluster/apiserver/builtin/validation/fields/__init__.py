"""What any field of any kind may hold: formats of values, lists of errors, common structs."""
