"""What a user writes on the command line, as values, types, trees and positions."""
