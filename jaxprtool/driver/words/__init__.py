"""Words of the command line as values, types, trees and positions."""
